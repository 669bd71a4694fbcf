"""Patterns against the sets of the papers, kernels against a float64 loop, shared heads against copies,
biases by name.
"""

import dataclasses
import json
import math
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from lab.config.compose import Override, compose
from lab.config.schema import RunConfig, Shape
from lab.config.strict import ConfigError
from lab.model import attention, kernel
from lab.model.kernel import kernel_for
from lab.model.pattern import VARIANTS as PATTERNS
from lab.model.pattern import LayerRule
from lab.model.position import VARIANTS as POSITIONS
from lab.model.transformer import Transformer
from lab.plan.budget import TrainingText, counts, resolve, shape
from lab.store.identity import identity
from lab.train.optimizer import parameter_groups
from tests.tiny_model import SHAPE, STABILITY, build, choice, loss_of, tiny, tokens
from tests.tiny_run import tiny_run

CORPUS = TrainingText("fingerprint", bytes_per_token=4.0, train_tokens=10**6, tokenizer_hash="t")
LAYERS = dataclasses.replace(SHAPE, num_layers=8)
CHILD = {"strided": {"stride": 5}, "fixed": {"stride": 5, "summary": 2}}
SETTINGS: dict[str, dict[str, Any]] = {
    "full": {},
    "window": {"window": 5},
    **CHILD,
    "interleaved": {"window": 5, "local_layers": 3, "global_position": "keep"},
}


def composed(*overrides: str) -> Any:
    return compose([Override("size=nano"), *map(Override, overrides)])


def rules(name: str, of: Shape = LAYERS) -> list[LayerRule]:
    return PATTERNS[name](of, **SETTINGS[name])


def read_by(name: str, layer: int, i: int) -> set[int]:
    """The positions that query i reads, from the papers; stride and summary are l and c of Child et al.,
    section 4.3.
    """
    past, stride, summary = range(i + 1), CHILD["strided"]["stride"], CHILD["fixed"]["summary"]
    window = {j for j in past if j > i - 5}
    near, far = {j for j in past if j >= max(0, i - stride)}, {j for j in past if (i - j) % stride == 0}
    block = {j for j in past if j // stride == i // stride}
    summaries = {j for j in past if j % stride in range(stride - summary, stride)} | {i}
    return {
        "full": set(past),
        "window": window,
        "strided": far if layer % 2 else near,
        "fixed": summaries if layer % 2 else block,
        "interleaved": set(past) if layer % 4 == 3 else window,
    }[name]


@pytest.mark.parametrize("name", PATTERNS)
def test_each_layer_reads_the_sets_of_the_paper(name: str) -> None:
    for layer, rule in enumerate(rules(name)):
        seen = ~kernel.hidden(torch.empty(24, 1), rule.sees)
        for i in range(24):
            assert set(seen[i].nonzero().flatten().tolist()) == read_by(name, layer, i), (layer, i)


@pytest.mark.parametrize(
    ("config", "local_layers"),
    [(transformers.Gemma3TextConfig, 5), (transformers.Cohere2Config, 3), (transformers.Gemma2Config, 1)],
)
def test_global_layers_stand_where_gemma_and_command_a_have_them(config: Any, local_layers: int) -> None:
    theirs = config(num_hidden_layers=14).layer_types
    of = dataclasses.replace(SHAPE, num_layers=14)
    ours = PATTERNS["interleaved"](of, window=4, local_layers=local_layers, global_position="none")
    assert [r.sees is not None for r in ours] == [kind == "sliding_attention" for kind in theirs]
    assert [r.position for r in ours] == [kind == "sliding_attention" for kind in theirs]


@pytest.mark.parametrize("name", PATTERNS)
def test_kept_keys_are_those_that_a_later_query_reads(name: str) -> None:
    for rule in rules(name):
        for length in range(1, 40):
            query, key = torch.arange(length - 1, 80)[:, None], torch.arange(length)
            read = query >= key if rule.sees is None else rule.sees(query, key) & (query >= key)
            assert rule.kept(length) == int(read.any(0).sum())


# --- the numbers ---


def reference(
    config: RunConfig, model: Transformer, layer: int, x: Tensor, read: Any, relative: Any = None
) -> Tensor:
    """Attention of one row [T, d_model] in float64, one head and one query at a time; `relative(h, i, j)`
    is what positions add.
    """
    s, one, cap = config.shape, model.blocks[layer].attention, config.stability.attention_softcap
    weight = {part: getattr(one, part).weight.double() for part in ("q", "k", "v", "out")}
    offset = {part: getattr(one, part).bias for part in weight}
    made = {
        part: x @ w.T + (0.0 if offset[part] is None else offset[part].double())
        for part, w in weight.items()
        if part != "out"
    }
    heads = []
    for h in range(s.num_heads):
        of_q, group = slice(h * s.head_dim, (h + 1) * s.head_dim), h // (s.num_heads // s.kv_heads)
        of_kv = slice(group * s.head_dim, (group + 1) * s.head_dim)
        q, k, v = made["q"][:, of_q], made["k"][:, of_kv], made["v"][:, of_kv]
        out = []
        for i in range(len(x)):
            seen = sorted(read(i))
            score = torch.stack([q[i] @ k[j] / math.sqrt(s.head_dim) for j in seen])
            score = score if cap is None else cap * torch.tanh(score / cap)
            if relative is not None:
                score = score + torch.tensor([relative(h, i, j) for j in seen], dtype=torch.float64)
            out.append(score.softmax(0) @ v[seen])
        heads.append(torch.stack(out))
    y = torch.cat(heads, -1) @ weight["out"].T
    return y if offset["out"] is None else y + offset["out"].double()


GROUPED = dataclasses.replace(LAYERS, num_heads=6, head_dim=16, num_kv_heads=2)
CASES = [
    (pattern, position, cap)
    for pattern in PATTERNS
    for position in ("none", "alibi", "t5")
    for cap in (None, 0.7)
]


def t5_bias(model: Transformer) -> Any:
    return lambda h, i, j: model.position.weight[model.position.bucket(torch.tensor(i - j)), h].item()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("heads", [LAYERS, GROUPED], ids=["multi-head", "grouped"])
@pytest.mark.parametrize(("pattern", "position", "cap"), CASES, ids=str)
def test_every_kernel_computes_the_formula(
    pattern: str, position: str, cap: float | None, heads: Shape
) -> None:
    config = tiny(
        shape=heads,
        position=position,
        pattern={"name": pattern, **SETTINGS[pattern]},
        stability=dataclasses.replace(STABILITY, attention_softcap=cap),
        bias="all",
    )
    model, generator = build(config), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, role in model.roles().items():
            if role in {"bias", "position_bias"}:
                parameter = model.get_parameter(name)
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
    layer = 3 if pattern == "interleaved" else 1
    x = torch.randn(1, 24, 32, generator=generator)
    one, rule = model.blocks[layer].attention, model.rules[layer]
    relative = {
        "none": None,
        "alibi": lambda h, i, j: -model.position.slopes[h].item() * (i - j),
        "t5": t5_bias(model),
    }[position]
    expected = reference(config, model, layer, x[0].double(), lambda i: read_by(pattern, layer, i), relative)

    q, k, v = (getattr(one, p)(x).unflatten(-1, (-1, heads.head_dim)).transpose(1, 2) for p in "qkv")
    bias = model.position.bias(q, layer=layer)
    paths = {
        "masked": lambda: kernel.masked(
            q, k, v, softcap=cap, bias=bias, sees=rule.sees, read=lambda weights: None
        )
    }
    if cap is None:
        paths["sdpa"] = lambda: kernel.sdpa(q, k, v, bias=bias, sees=rule.sees)
    with torch.no_grad():  # FlexAttention has no gradients on a CPU
        bias_now = None if bias is None else bias.detach()
        flexed = kernel.flex(q.detach(), k.detach(), v.detach(), softcap=cap, bias=bias_now, sees=rule.sees)
    gradients = []
    for compute in paths.values():
        y = one.out(compute().transpose(1, 2).flatten(2))[0]
        assert (y.double() - expected).norm() <= 1e-5 * expected.norm()
        trained = [one.q.weight, one.k.weight, one.v.weight, *model.position.parameters()]
        gradients.append(torch.autograd.grad(y.square().sum(), trained, retain_graph=True))
    assert (
        one.out(flexed.transpose(1, 2).flatten(2))[0].double() - expected
    ).norm() <= 1e-5 * expected.norm()
    for a, b in zip(gradients[0], gradients[-1], strict=True):
        assert (a - b).norm() <= 1e-5 * a.norm()
    chosen = kernel_for(model.position, rule, softcap=cap, device="cpu")
    y, _ = one(x, model.position, diagnostics=False)
    torch.testing.assert_close(y, one.out(paths[chosen]().transpose(1, 2).flatten(2)), rtol=0, atol=0)


@pytest.mark.parametrize("name", PATTERNS)
def test_flex_functions_are_the_plain_path_one_element_at_a_time(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    score, bias = (torch.randn(*size, 24, 24, generator=generator) for size in ((2, 3), (3,)))
    modify = kernel.score_mod(0.5, bias)
    for rule in rules(name):
        visible = kernel.mask_mod(rule.sees)
        for index in [(b, h, q, k) for b in (0, 1) for h in (0, 2) for q in (0, 7, 23) for k in range(24)]:
            at = [torch.tensor(i) for i in index]
            plain = 0.5 * torch.tanh(score / 0.5) + bias
            assert modify(score[index], *at) == plain[index]
            assert bool(visible(*at)) == (index[3] in read_by_rule(rule, index[2]))


def read_by_rule(rule: LayerRule, i: int) -> set[int]:
    return set((~kernel.hidden(torch.empty(24, 1), rule.sees))[i].nonzero().flatten().tolist())


@pytest.mark.parametrize(
    ("position", "rule", "softcap", "cpu", "cuda"),
    [
        ("rope", "full", None, "sdpa", "sdpa"),
        ("rope", "full", 50.0, "masked", "flex"),
        ("rope", "window", None, "sdpa", "flex"),
        ("alibi", "full", None, "sdpa", "flex"),
        ("t5", "full", None, "sdpa", "sdpa"),
        ("t5", "full", 50.0, "masked", "masked"),
        ("relative", "full", None, "masked", "masked"),
    ],
)
def test_the_kernel_of_a_layer(position: str, rule: str, softcap: float | None, cpu: str, cuda: str) -> None:
    parameters = choice("position", position)
    del parameters["name"]
    where = POSITIONS[position](SHAPE, **parameters)
    for device, expected in (("cpu", cpu), ("cuda", cuda)):
        assert kernel_for(where, rules(rule)[0], softcap=softcap, device=device) == expected


def test_the_kernels_in_use_are_named() -> None:
    pattern = {"name": "interleaved", "window": 5, "local_layers": 1, "global_position": "none"}
    assert Transformer(tiny(pattern="interleaved")).attention_kernel == "sdpa"
    assert Transformer(tiny(pattern=pattern, position="relative")).attention_kernel == "masked+sdpa"


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{"pattern": "window"}, {"position": "alibi"}, {"pattern": "fixed"}], ids=str
)
def test_a_model_with_masks_compiles_into_one_graph(changes: dict[str, Any]) -> None:
    model = build(tiny(**changes))
    compiled, batch = torch.compile(model, fullgraph=True, backend="eager"), tokens(2, 12)
    with torch.no_grad():
        torch.testing.assert_close(compiled(batch).logits, model(batch).logits)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("changes", [{"pattern": "fixed"}, {"position": "alibi"}], ids=str)
@torch.no_grad()
def test_flex_attention_joins_the_graph_of_a_compiled_model(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = build(tiny(shape=dataclasses.replace(SHAPE, num_kv_heads=1), **changes)), tokens(2, 20)
    expected = model(batch).logits
    monkeypatch.setattr(attention, "kernel_for", lambda *args, **options: "flex")
    torch.testing.assert_close(model(batch).logits, expected, rtol=0, atol=1e-5)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(batch).logits, expected, rtol=0, atol=1e-5)


def test_global_layers_without_positions_are_those_of_a_model_without() -> None:
    pattern = {"name": "interleaved", "window": 5, "local_layers": 1, "global_position": "none"}
    mixed, without = build(tiny(pattern=pattern)), build(tiny(position="none"))
    x = torch.randn(2, 24, 32, generator=torch.Generator().manual_seed(0))
    for layer, same in ((0, False), (1, True)):
        y = [m.blocks[layer].attention(x, m.position, diagnostics=False)[0] for m in (mixed, without)]
        assert torch.equal(*y) is same


# --- shared heads of keys and values ---


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
@torch.no_grad()
def test_shared_heads_equal_heads_whose_keys_and_values_are_copies(kv_heads: int) -> None:
    grouped = build(tiny(shape=dataclasses.replace(GROUPED, num_kv_heads=kv_heads)))
    every = build(tiny(shape=dataclasses.replace(GROUPED, num_kv_heads=None)))
    state = grouped.state_dict()
    for name, value in state.items():
        if name.endswith(("attention.k.weight", "attention.v.weight")):
            state[name] = value.unflatten(0, (kv_heads, 16)).repeat_interleave(6 // kv_heads, 0).flatten(0, 1)
    every.load_state_dict(state)
    batch = tokens(2, 24)
    torch.testing.assert_close(grouped(batch).logits, every(batch).logits, rtol=0, atol=1e-5)
    stats = [m(batch, diagnostics=True).stats["attention/logit_max/0"] for m in (grouped, every)]
    torch.testing.assert_close(*stats)


@pytest.mark.parametrize("kv_heads", [1, 3, None])
def test_cost_of_shared_heads(kv_heads: int | None) -> None:
    run = tiny_run(
        shape=dataclasses.replace(GROUPED, num_kv_heads=kv_heads),
        stability=dataclasses.replace(STABILITY, attention_softcap=50.0),  # the counter sees no fused kernel
    )
    model, batch = build(run), tokens(2, 25)
    with FlopCounterMode(display=False) as counter:
        loss_of(model, batch).backward()
    assert counter.get_total_flops() == pytest.approx(counts(run).flops_per_token * 2 * 24, rel=1e-3)
    # Ainslie et al. 2023: 2 L g d_h elements a token.
    assert counts(run).kv_cache_bytes_per_token == 2 * 8 * (kv_heads or 6) * 16 * 4


def test_windows_bound_the_cache() -> None:
    pattern = {"name": "interleaved", "window": 5, "local_layers": 3, "global_position": "keep"}
    of = tiny_run(shape=LAYERS, pattern=pattern)
    assert counts(of).kv_cache_bytes_per_token == 2 * 3 * 8 * 4 * (6 * 5 + 2 * 24) / 24
    bf16 = dataclasses.replace(of, precision=dataclasses.replace(of.precision, dtype="bfloat16"))
    assert counts(bf16).kv_cache_bytes_per_token == counts(of).kv_cache_bytes_per_token / 2


def test_the_number_of_shared_heads_is_part_of_the_shape() -> None:
    assert shape(composed("attention=mqa")).num_kv_heads == 1
    assert shape(composed("heads=4", "attention=gqa")).num_kv_heads == 2
    every = resolve(composed("attention=gqa", "attention.num_kv_heads=3"), CORPUS)
    assert identity(every) == identity(resolve(composed(), CORPUS))


def test_wider_arms_keep_only_widths_whose_heads_can_be_shared() -> None:
    assert shape(composed("heads=4", "attention=gqa", "aspect=64")).d_model % 4 == 0
    with pytest.raises(ConfigError, match="num_kv_heads = 2 .*does not divide the 3 heads"):
        composed("aspect=24", "attention=gqa")


# --- biases ---


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("none", set()),
        ("norm", {"norm"}),
        ("qkv", {"q", "k", "v"}),
        ("all", {"q", "k", "v", "out", "gate", "up", "down", "norm"}),
    ],
)
def test_biases_stand_where_they_are_said_to_and_start_at_zero(name: str, expected: set[str]) -> None:
    model = build(tiny(bias=name, norm="layernorm"))
    found = {n.removesuffix(".bias") for n, _ in model.named_parameters() if n.endswith(".bias")}
    assert {n.split(".")[-1].replace("final_norm", "norm") for n in found} == expected
    assert all(not model.get_parameter(f"{n}.bias").any() for n in found)
    assert "head.bias" not in dict(model.named_parameters())
    decayed = parameter_groups(model.roles())["decayed"]
    assert not [n for n in decayed if n.endswith("bias")]


def test_a_bias_that_no_norm_has_names_no_second_run() -> None:
    baseline = resolve(composed(), CORPUS)
    assert resolve(composed("bias=none"), CORPUS) == baseline
    layernorm = [
        resolve(composed("norm=layernorm", f"bias={name}"), CORPUS) for name in ("norm", "none", "qkv", "all")
    ]
    assert len({json.dumps(identity(run), sort_keys=True) for run in layernorm}) == 4


# --- identity and refusals ---


def test_the_baseline_is_named_as_it_was_before_these_axes() -> None:
    named = identity(resolve(composed("precision=fp32"), CORPUS))
    assert not {"pattern", "bias", "attention", "block", "ffn"} & named.keys()
    assert named["shape"] == {
        "d_model": 96,
        "num_layers": 4,
        "num_heads": 3,
        "head_dim": 32,
        "d_ff": 256,
        "vocab_size": 1024,
        "context_length": 256,
    }
    assert named["position"] == {"name": "rope", "theta": 10000.0}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["attention=gqa"],
            "attention.num_kv_heads = 2 .*: does not divide the 3 heads. Use 1 or 3, or another heads.value",
        ),
        (["attention.num_kv_heads=0"], "must be from 1 to 4096"),
        (
            ["pattern=window", "pattern.window=256"],
            "pattern.window = 256: .* needs a window from 1 to 255. For the whole past",
        ),
        (["pattern=strided", "pattern.stride=1"], "pattern.stride = 1: .* from 2 to 255"),
        (["pattern=strided", "size.num_layers=1"], "takes turns between two kinds of layers"),
        (["pattern=fixed", "pattern.summary=16"], "pattern.summary = 16: must be from 1 to 15"),
        (["pattern=interleaved", "pattern.local_layers=4"], "4 layers need from 1 to 3"),
        (["pattern=interleaved", "pattern.global_position=some"], "unknown. Known: keep, none"),
        (
            ["pattern=interleaved", "pattern.global_position=none", "position=learned"],
            "position=learned does nothing inside",
        ),
        (
            ["pattern=interleaved", "pattern.global_position=none", "position=none"],
            "position=none does nothing inside",
        ),
        (["position=rope_partial", "position.rotary_fraction=0.1"], "rotates 3 of 32 channels"),
        (["ffn=moe", "bias=all"], "experts have no biases"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_planned(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(composed(*overrides), CORPUS)
