"""The model against formulas written out in float64, one position and one head at a time."""

import dataclasses
import math
from typing import Any

import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.config import ConfigError, Regularization, RunConfig
from lab.model import transformer
from lab.model.activation import VARIANTS as ACTIVATIONS
from lab.model.attention import Attention
from lab.model.bias import VARIANTS as BIASES
from lab.model.dropout import dropout
from lab.model.initializer import initialize
from lab.model.norm import VARIANTS as NORMS
from lab.model.pattern import LayerRule
from lab.model.position import VARIANTS as POSITIONS
from lab.model.position import Position
from lab.model.transformer import Transformer
from tests.tiny_model import EMBEDDING, INIT, SHAPE, STABILITY, build, choice, tiny, tokens

TIED = dataclasses.replace(EMBEDDING, tied=True)


def with_stability(**changes: Any) -> dict[str, Any]:
    return {"stability": dataclasses.replace(STABILITY, **changes)}


def scrambled(config: RunConfig) -> Transformer:
    """A float64 model whose gains and biases are not the neutral 1 and 0 they start from."""
    model = build(config).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, role in model.roles().items():
            if role.startswith("norm"):
                parameter = model.get_parameter(name)
                parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


# --- the whole model, written out ---


def reference(model: Transformer, config: RunConfig, row: Tensor) -> dict[str, Any]:
    """Logits [T, V] and statistics of one row of tokens, from the formulas cited in the axis files."""
    w = dict(model.named_parameters())
    shape, name = (
        config.shape,
        {
            axis: getattr(config, axis)["name"]
            for axis in ("norm_placement", "norm", "activation", "position")
        },
    )
    length, stats = len(row), {}

    def norm(x: Tensor, prefix: str) -> Tensor:
        if name["norm"] == "none":
            return x
        eps = config.norm["eps"]
        if name["norm"] == "layernorm":
            x = x - x.mean(-1, keepdim=True)
            return (
                x / ((x * x).mean(-1, keepdim=True) + eps).sqrt() * w[f"{prefix}.weight"]
                + w[f"{prefix}.bias"]
            )
        return x / ((x * x).mean(-1, keepdim=True) + eps).sqrt() * w[f"{prefix}.weight"]

    def placed(x: Tensor, prefix: str, f: Any) -> Tensor:
        return {
            "pre": lambda: x + f(norm(x, f"{prefix}.norm")),
            "post": lambda: norm(x + f(x), f"{prefix}.norm"),
            "double": lambda: x + norm(f(norm(x, f"{prefix}.input_norm")), f"{prefix}.output_norm"),
            "output": lambda: x + norm(f(x), f"{prefix}.norm"),
        }[name["norm_placement"]]()

    def rotated(vector: Tensor, at: int) -> Tensor:
        if name["position"] != "rope":
            return vector
        out, half = vector.clone(), shape.head_dim // 2
        for i in range(half):
            angle = at * config.position["theta"] ** (-2 * i / shape.head_dim)
            a, b = vector[i], vector[i + half]
            out[i], out[i + half] = (
                a * math.cos(angle) - b * math.sin(angle),
                a * math.sin(angle) + b * math.cos(angle),
            )
        return out

    def head_norm(vector: Tensor, gain: str) -> Tensor:
        return (
            vector / ((vector * vector).mean() + 1e-6).sqrt() * w[gain]
            if config.stability.qk_norm
            else vector
        )

    def attention(x: Tensor, layer: int) -> Tensor:
        prefix, cap, heads, largest = f"blocks.{layer}.attention", config.stability.attention_softcap, [], 0.0
        for head in range(shape.num_heads):
            rows = slice(head * shape.head_dim, (head + 1) * shape.head_dim)
            q, k, v = (x @ w[f"{prefix}.{part}.weight"][rows].T for part in "qkv")
            q = torch.stack([rotated(head_norm(q[i], f"{prefix}.q_norm.weight"), i) for i in range(length)])
            k = torch.stack([rotated(head_norm(k[i], f"{prefix}.k_norm.weight"), i) for i in range(length)])
            read = []
            for i in range(length):
                score = torch.stack([q[i] @ k[j] / math.sqrt(shape.head_dim) for j in range(i + 1)])
                largest = max(largest, score.abs().max().item())
                if cap is not None:
                    score = cap * torch.tanh(score / cap)
                read.append(score.softmax(0) @ v[: i + 1])
            heads.append(torch.stack(read))
        stats[f"attention/logit_max/{layer}"] = largest
        return torch.cat(heads, -1) @ w[f"{prefix}.out.weight"].T

    def ffn(x: Tensor, layer: int) -> Tensor:
        up = x @ w[f"blocks.{layer}.ffn.up.weight"].T
        if name["activation"] == "swiglu":
            gate = x @ w[f"blocks.{layer}.ffn.gate.weight"].T
            hidden = gate / (1 + torch.exp(-gate)) * up
        else:
            hidden = up * (1 + torch.erf(up / math.sqrt(2))) / 2
        return hidden @ w[f"blocks.{layer}.ffn.down.weight"].T

    x = w["embedding.weight"][row]
    if name["position"] == "learned":
        x = x + w["position.weight"][:length]
    if name["position"] == "sine":
        channel = [
            [at / config.position["base"] ** (2 * (i // 2) / shape.d_model) for i in range(shape.d_model)]
            for at in range(length)
        ]
        x = x + torch.tensor(
            [[math.cos(a) if i % 2 else math.sin(a) for i, a in enumerate(angles)] for angles in channel]
        )
    for layer in range(shape.num_layers):
        x = placed(x, f"blocks.{layer}.attention_placement", lambda y, layer=layer: attention(y, layer))
        x = placed(x, f"blocks.{layer}.ffn_placement", lambda y, layer=layer: ffn(y, layer))
        stats[f"residual/rms/{layer}"] = (x * x).mean().sqrt().item()
    if name["norm_placement"] != "post":
        x = norm(x, "final_norm")
    logits = (
        x @ w["embedding.weight"].T / math.sqrt(shape.d_model)
        if config.embedding.tied
        else x @ w["head.weight"].T
    )
    cap = config.stability.output_softcap
    return {"logits": logits if cap is None else cap * torch.tanh(logits / cap), "stats": stats}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "layernorm"},
        {"norm": "none"},
        *(
            {"norm_placement": place, "norm": norm}
            for place in ("post", "double", "output")
            for norm in ("rmsnorm", "layernorm")
        ),
        {"activation": "gelu"},
        *({"position": position} for position in ("none", "learned", "sine")),
        {"embedding": TIED},
        with_stability(qk_norm=True),
        with_stability(attention_softcap=0.5),
        with_stability(output_softcap=0.5),
        with_stability(qk_norm=True, attention_softcap=0.5, output_softcap=0.5),
    ],
    ids=str,
)
@torch.no_grad()
def test_logits_and_statistics_are_those_of_the_formulas(changes: dict[str, Any]) -> None:
    config = tiny(**changes)
    model, batch = scrambled(config), tokens(1, 13)
    output, expected = model(batch, diagnostics=True), reference(model, config, batch[0])
    # Rotary and sine tables are kept in fp32.
    torch.testing.assert_close(output.logits[0], expected["logits"], rtol=0, atol=2e-6)
    assert {key: value.item() for key, value in output.stats.items()} == pytest.approx(
        expected["stats"], abs=2e-6
    )
    assert output.aux.item() == 0.0
    plain = model(batch)
    assert plain.stats == {} and torch.equal(plain.logits, output.logits)


@pytest.mark.parametrize("place", ["pre", "post", "double", "output"])
@pytest.mark.parametrize("norm", ["rmsnorm", "layernorm"])
@torch.no_grad()
def test_bf16_autocast_stays_near_fp32_and_warns_of_nothing(place: str, norm: str) -> None:
    caps = {"qk_norm": True, "attention_softcap": 5.0, "output_softcap": 5.0}
    for stability in ({}, caps):
        model = build(tiny(norm_placement=place, norm=norm, **with_stability(**stability)))
        with torch.autocast("cpu", torch.bfloat16):
            rounded = model(tokens(2, 24)).logits
        exact = model(tokens(2, 24)).logits
        # bf16 has a relative precision of 2^-8, and the paths are about a dozen operations deep.
        assert (rounded - exact).norm() < 12 * 2**-8 * exact.norm()


def test_the_fused_kernel_is_used_unless_scores_are_capped() -> None:
    assert Transformer(tiny()).attention_kernel == "sdpa"
    assert Transformer(tiny(**with_stability(attention_softcap=50.0))).attention_kernel == "masked"


def test_a_row_longer_than_the_context_and_an_unknown_variant_are_refused() -> None:
    with pytest.raises(ValueError, match="25 tokens .* context_length 24"):
        build(tiny())(tokens(1, 25))
    with pytest.raises(ConfigError, match="norm = batchnorm: .* layernorm, rmsnorm, nonparametric, none"):
        Transformer(tiny(norm={"name": "batchnorm"}))


# --- the parts ---


@pytest.mark.parametrize("name", ["layernorm", "rmsnorm"])
def test_norm_of_a_vector_computed_by_hand(name: str) -> None:
    # (1, 3): mean 2, variance 1, mean square 5; eps shifts them to 4 and 9.
    eps, expected = {"layernorm": (3.0, [-0.5, 0.5]), "rmsnorm": (4.0, [1 / 3, 1.0])}[name]
    torch.testing.assert_close(
        NORMS[name](2, True, eps=eps)(torch.tensor([1.0, 3.0])), torch.tensor(expected)
    )


def normal_cdf(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2


@pytest.mark.parametrize(
    ("name", "gated", "closed_form"),
    [
        ("relu", False, lambda x: max(0.0, x)),
        ("gelu", False, lambda x: x * normal_cdf(x)),
        (
            "gelu_tanh",
            False,
            lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        ),
        ("silu", False, lambda x: x / (1 + math.exp(-x))),
        ("elu", False, lambda x: x if x > 0 else math.exp(x) - 1),
        (
            "selu",
            False,
            lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * (math.exp(x) - 1)),
        ),
        ("relu2", False, lambda x: max(0.0, x) ** 2),
        ("glu", True, lambda x: 1 / (1 + math.exp(-x))),
        ("reglu", True, lambda x: max(0.0, x)),
        ("geglu", True, lambda x: x * normal_cdf(x)),
        (
            "geglu_tanh",
            True,
            lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        ),
        ("swiglu", True, lambda x: x / (1 + math.exp(-x))),
        ("bilinear", True, lambda x: x),
    ],
)
def test_activation_is_its_closed_form(name: str, gated: bool, closed_form: Any) -> None:
    x = torch.linspace(-6, 6, 49, dtype=torch.float64)
    expected = torch.tensor([closed_form(value) for value in x.tolist()], dtype=torch.float64)
    torch.testing.assert_close(ACTIVATIONS[name].function(x), expected, rtol=1e-12, atol=1e-12)
    assert ACTIVATIONS[name].gated is gated


def rotary(**changes: Any) -> Position:
    return POSITIONS["rope"](dataclasses.replace(SHAPE, **changes), theta=10000.0)


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 8, generator=generator, dtype=torch.float64)
    q, k = rotary(context_length=64).rotate(q.expand(1, 1, 64, 8), k.expand(1, 1, 64, 8))
    scores = (q @ k.transpose(-2, -1))[0, 0]
    for distance in range(-63, 64):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=5e-5)
    assert scores[:, 0].std() > 0.1
    torch.testing.assert_close(q.norm(dim=-1), q[..., :1, :].norm(dim=-1).expand(1, 1, 64), rtol=0, atol=1e-6)


def test_a_position_bias_is_added_to_the_scores() -> None:
    class Distance(Position):
        """Head h subtracts 2^-h per token of distance: ALiBi, Press et al. 2021 (2108.12409)."""

        def bias(self, q: Tensor, *, layer: int) -> Tensor:
            distance = torch.arange(q.shape[-2])[:, None] - torch.arange(q.shape[-2])
            return -distance * 0.5 ** torch.arange(SHAPE.num_heads)[:, None, None]

    attention = Attention(
        SHAPE,
        layer=0,
        rule=LayerRule(),
        biases=BIASES["none"],
        qk_norm=False,
        qk_norm_joint=False,
        softcap=None,
    )
    initialize(attention, init=tiny().init, seed=0)
    x = torch.randn(2, 9, SHAPE.d_model, generator=torch.Generator().manual_seed(0))
    q, k, v = (
        F.linear(x, getattr(attention, part).weight).view(2, 9, 3, 8).transpose(1, 2) for part in "qkv"
    )
    mask = Distance().bias(q, layer=0) + torch.full((9, 9), -math.inf).triu(1)
    expected = F.linear(
        F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2),
        attention.out.weight,
    )
    torch.testing.assert_close(attention(x, Distance(), diagnostics=False)[0], expected)


@torch.no_grad()
def test_qk_norm_bounds_the_scores_however_large_the_weights() -> None:
    model = build(tiny(**with_stability(qk_norm=True)))
    for block in model.blocks:
        block.attention.q.weight *= 1000.0
        block.attention.k.weight *= 1000.0
    stats = model(tokens(4, 24), diagnostics=True).stats
    assert all(0.5 < stats[f"attention/logit_max/{i}"] <= math.sqrt(SHAPE.head_dim) + 1e-5 for i in range(2))


# --- randomness ---


def test_dropout_is_a_function_of_seed_step_and_site() -> None:
    x = torch.ones(400, 50)
    base = dropout(x, rate=0.2, key=(3, 7), site="ffn/1")
    assert torch.equal(base, dropout(x, rate=0.2, key=(3, 7), site="ffn/1"))
    for other in (
        dropout(x, rate=0.2, key=(4, 7), site="ffn/1"),
        dropout(x, rate=0.2, key=(3, 8), site="ffn/1"),
        dropout(x, rate=0.2, key=(3, 7), site="ffn/2"),
    ):
        # Independent masks agree in 0.8^2 + 0.2^2 of the places.
        assert (base == other).double().mean().item() == pytest.approx(0.68, abs=0.02)
    assert set(base.unique().tolist()) == {0.0, 1.25}
    assert scipy.stats.binomtest(int((base == 0).sum()), base.numel(), 0.2).pvalue > 1e-3


def test_dropout_is_repeated_by_its_key_and_off_in_evaluation() -> None:
    dropping = build(tiny(regularization=Regularization(dropout=0.3, weight_decay=0.0, label_smoothing=0.0)))
    batch, state = tokens(2, 12), torch.get_rng_state()
    with torch.no_grad():
        assert torch.equal(
            dropping(batch, dropout_key=(0, 5)).logits, dropping(batch, dropout_key=(0, 5)).logits
        )
        assert not torch.allclose(
            dropping(batch, dropout_key=(0, 5)).logits, dropping(batch, dropout_key=(0, 6)).logits
        )
        assert torch.equal(dropping(batch).logits, build(tiny())(batch).logits)
    assert torch.equal(state, torch.get_rng_state())


def test_every_place_that_drops_has_a_site_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = []

    def recording(x: Tensor, *, rate: float, key: tuple[int, int] | None, site: str) -> Tensor:
        sites.append((site, rate, key))
        return x

    monkeypatch.setattr(transformer, "dropout", recording)
    build(tiny(regularization=Regularization(dropout=0.3, weight_decay=0.0, label_smoothing=0.0)))(
        tokens(1, 4), dropout_key=(2, 9)
    )
    expected = ["embedding", "attention/0", "ffn/0", "attention/1", "ffn/1"]
    assert sites == [(site, 0.3, (2, 9)) for site in expected]


def test_the_model_compiles_into_one_graph_with_dropout() -> None:
    model = build(
        tiny(
            regularization=Regularization(dropout=0.3, weight_decay=0.0, label_smoothing=0.0),
            **with_stability(qk_norm=True),
        )
    )
    compiled, batch = torch.compile(model, fullgraph=True, backend="eager"), tokens(2, 12)
    with torch.no_grad():
        for step in range(3):
            torch.testing.assert_close(
                compiled(batch, dropout_key=(0, step)).logits, model(batch, dropout_key=(0, step)).logits
            )


@pytest.mark.parametrize(
    ("changes", "added"),
    [
        ({"activation": "gelu"}, set()),
        ({"norm": "layernorm"}, {"norm_bias"}),
        ({"position": "learned"}, {"position"}),
        ({"norm_placement": "double"}, {"norm_gain"}),
        (with_stability(qk_norm=True), {"norm_gain"}),
    ],
    ids=str,
)
def test_an_axis_leaves_the_start_of_every_other_tensor_as_it_was(
    changes: dict[str, Any], added: set[str]
) -> None:
    before, after = build(tiny()).state_dict(), build(tiny(**changes))
    shared = before.keys() & after.state_dict().keys()
    assert {"embedding.weight", "blocks.1.ffn.down.weight", "head.weight"} <= shared
    assert all(torch.equal(before[name], after.state_dict()[name]) for name in shared)
    assert {after.roles()[name] for name in after.state_dict().keys() - shared} == added


def test_the_start_depends_on_the_seed_alone() -> None:
    state = torch.get_rng_state()
    model = Transformer(tiny()).double()
    torch.manual_seed(123)
    initialize(model, init=tiny().init, seed=0)
    torch.set_rng_state(state)
    for name, parameter in build(tiny()).named_parameters():
        assert torch.equal(parameter.double(), model.get_parameter(name))
    other = build(tiny(seed=1))
    assert not torch.allclose(model.get_parameter("head.weight").float(), other.get_parameter("head.weight"))


def test_no_two_tensors_start_alike() -> None:
    model = build(tiny())
    flat = [p.flatten() for name, p in model.named_parameters() if model.roles()[name] == "linear"]
    shared = min(len(values) for values in flat)
    correlation = torch.corrcoef(torch.stack([values[:shared] for values in flat]).detach())
    assert correlation.fill_diagonal_(0.0).abs().max() < 5 / math.sqrt(shared)


def test_every_role_starts_from_its_distribution() -> None:
    config = tiny(
        norm="layernorm", position="learned", init=dataclasses.replace(INIT, embedding_std=0.5, cutoff=2.0)
    )
    model = build(config)
    for name, role in model.roles().items():
        value = model.get_parameter(name).detach()
        if role in {"norm_gain", "norm_bias"}:
            assert value.unique().tolist() == [float(role == "norm_gain")]
            continue
        std = 0.5 if role in {"embedding", "position"} else math.sqrt(2 / sum(value.shape))
        assert value.abs().max() <= 2.0 * std
        test = scipy.stats.kstest(value.flatten().numpy(), scipy.stats.truncnorm(-2.0, 2.0, scale=std).cdf)
        assert test.pvalue > 1e-4, name
    assert set(model.roles().values()) == {
        "embedding",
        "position",
        "linear",
        "value",
        "residual",
        "head",
        "norm_gain",
        "norm_bias",
    }
    assert model.get_parameter("blocks.0.attention.q.weight").shape == (24, 32)


def test_a_tied_head_is_the_embedding_itself() -> None:
    model = build(tiny(embedding=TIED))
    assert model.head.weight is model.embedding.weight
    assert model.roles()["embedding.weight"] == "embedding" and "head.weight" not in model.roles()


def test_a_missing_and_an_unknown_role_are_refused() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain = nn.Parameter(torch.ones(3))

    with pytest.raises(ValueError, match="0.gain: Scale declares no role for gain"):
        initialize(nn.Sequential(Scale()), init=tiny().init, seed=0)
    Scale.roles = {"gain": "mystery"}  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="0.gain: role 'mystery' is unknown. Known: linear, value"):
        initialize(nn.Sequential(Scale()), init=tiny().init, seed=0)


def test_every_shipped_position_is_silent_where_it_has_no_say() -> None:
    q, k, x = torch.randn(3, 1, 3, 5, 8, generator=torch.Generator().manual_seed(0)).unbind(0)
    for name in POSITIONS:
        parameters = choice("position", name)
        del parameters["name"]
        variant, weights = POSITIONS[name](SHAPE, **parameters), q.new_ones(1, 3, 5, 5)
        acts = {hook for hook in ("embed", "rotate", "bias", "read") if variant.acts(hook)}
        expected = (
            {"embed"} if name in {"learned", "sine"} else {"rotate"} if name.startswith("rope") else {"bias"}
        )
        assert acts == {"relative": {"bias", "read"}, "none": set()}.get(name, expected)
        if "embed" not in acts:
            assert variant.embed(x) is x
        if "rotate" not in acts:
            assert variant.rotate(q, k) == (q, k)
        if "bias" not in acts:
            assert variant.bias(q, layer=0) is None
        if "read" not in acts:
            assert variant.read(weights, layer=0) is None
