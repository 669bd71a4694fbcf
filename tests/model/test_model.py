"""The model against formulas written out in float64, one position and one head at a time."""

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from lab.config.schema import RunConfig
from lab.config.strict import ConfigError
from lab.model.activation import VARIANTS as ACTIVATIONS
from lab.model.norm import VARIANTS as NORMS
from lab.model.transformer import Transformer
from tests.tiny_model import EMBEDDING, SHAPE, STABILITY, build, tiny, tokens

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


@torch.no_grad()
def test_qk_norm_bounds_the_scores_however_large_the_weights() -> None:
    model = build(tiny(**with_stability(qk_norm=True)))
    for block in model.blocks:
        block.attention.q.weight *= 1000.0
        block.attention.k.weight *= 1000.0
    stats = model(tokens(4, 24), diagnostics=True).stats
    assert all(0.5 < stats[f"attention/logit_max/{i}"] <= math.sqrt(SHAPE.head_dim) + 1e-5 for i in range(2))
