"""The solver against closed forms written by hand, and counts of memory against what torch keeps."""

import dataclasses
from collections.abc import Callable

import pytest
import torch

from lab.config.compose import Override, compose
from lab.config.schema import RunConfig
from lab.config.strict import ConfigError
from lab.plan.ablation import HOLDS
from lab.plan.budget import TrainingText, counts, resolve
from lab.plan.matching import held, match
from lab.train.loss import cross_entropy
from tests.tiny_model import build, tokens
from tests.tiny_run import tiny_run

CORPUS = TrainingText("fingerprint", bytes_per_token=4.0, train_tokens=10**6, tokenizer_hash="t")
D, LAYERS, VOCAB, CONTEXT = 96, 4, 1024, 256  # nano


def composed(*overrides: str):
    return compose([Override("size=nano"), *map(Override, overrides)])


def resolved(*overrides: str) -> RunConfig:
    return resolve(composed(*overrides), CORPUS)


def body(d: int, layers: int, matrices: float) -> float:
    """Parameters of pre-norm blocks with RMSNorm: attention, `matrices` times d d_ff, norms."""
    return layers * (4 * d * d + matrices + 2 * d) + d


def flops(d: int, layers: int, matrices: float) -> float:
    return 3 * (2 * (layers * (4 * d * d + matrices) + VOCAB * d) + layers * 4 * CONTEXT * d)


# Each count of a model of `layers` layers whose feed-forward layer has m d d_ff weights.
FORMS: dict[str, Callable[[int, int, float], float]] = {
    "body_parameters": body,
    "active_parameters": body,
    "parameters": lambda d, layers, matrices: body(d, layers, matrices) + 2 * VOCAB * d,
    "flops_per_token": flops,
}


@pytest.mark.parametrize("hold", FORMS)
def test_d_ff_is_what_the_closed_form_gives(hold):
    """GELU has 2 matrices of d d_ff, SwiGLU 3: at d_ff 3/2 times as wide every count is the same."""
    target = held(resolved(), CORPUS, hold)
    assert target == FORMS[hold](D, LAYERS, 3 * D * 256)
    config = composed("activation=gelu", "ffn_ratio=2")
    solved = match(config, resolve(config, CORPUS), hold=hold, target=target, solve="d_ff")
    assert (solved.d_ff, solved.d_model, solved.num_layers) == (384, D, LAYERS)


@pytest.mark.parametrize("hold", FORMS)
def test_depth_is_the_one_whose_ratio_comes_nearest(hold):
    """Every number of layers tried by hand: d_ff from the closed form, then the ratio nearest to the asked
    one.
    """
    target, asked = FORMS[hold](D, LAYERS, 3 * D * 256), 1.0
    config = composed("activation=gelu", f"ffn_ratio={asked}")
    solved = match(config, resolve(config, CORPUS), hold=hold, target=target, solve="depth")
    by_hand = {}
    for layers in range(1, 40):
        empty, one = FORMS[hold](D, layers, 0), FORMS[hold](D, layers, 2 * D)
        d_ff = round((target - empty) / (one - empty))
        if d_ff >= 1:
            by_hand[layers] = d_ff
    best = min(by_hand, key=lambda n: max(by_hand[n] / D / asked, asked * D / by_hand[n]))
    assert (solved.num_layers, solved.d_ff, solved.d_model) == (best, by_hand[best], D) and best != LAYERS
    matched = resolve(config, CORPUS, shape_=solved)
    assert held(matched, CORPUS, hold) == pytest.approx(target, rel=2e-3)


@pytest.mark.parametrize("hold", FORMS)
def test_width_holds_every_count(hold):
    target = held(resolved(), CORPUS, hold)
    config = composed("ffn_ratio=1", "heads.head_dim=16")
    solved = match(config, resolve(config, CORPUS), hold=hold, target=target, solve="width")
    assert solved.d_model > D and solved.d_model % 16 == 0 and solved.num_layers == LAYERS
    assert held(resolve(config, CORPUS, shape_=solved), CORPUS, hold) == pytest.approx(target, rel=2e-3)
    assert solved.d_ff / solved.d_model == pytest.approx(1.0, abs=0.6)


def test_the_ratio_of_experts_counts_all_networks_that_a_token_passes():
    """As many active weights as a dense layer of d_ff 256: two experts of half of it, at the same width."""
    config = composed("ffn=moe")
    target = held(resolved(), CORPUS, "active_parameters")
    solved = match(config, resolve(config, CORPUS), hold="active_parameters", target=target, solve="width")
    assert solved.d_model == D and 2 * solved.d_ff == pytest.approx(256, abs=8)


def test_no_depth_fits_a_tiny_target():
    config = composed()
    with pytest.raises(ConfigError, match="d_model = 96: no number of layers holds 100 body_parameters"):
        match(config, resolve(config, CORPUS), hold="body_parameters", target=100, solve="depth")


def test_text_is_what_training_reads():
    run = resolved("budget=bytes", "budget.amount=40960")
    assert (held(run, CORPUS, "tokens"), held(run, CORPUS, "bytes")) == (10_240, 40_960)
    coarse = dataclasses.replace(CORPUS, bytes_per_token=2.0)  # half the bytes a token: twice the tokens
    other = resolve(composed("budget=bytes", "budget.amount=40960"), coarse)
    assert (held(other, coarse, "tokens"), held(other, coarse, "bytes")) == (20_480, 40_960)
    assert all(held(run, CORPUS, hold) > 0 for hold in HOLDS if hold != "none")


@pytest.mark.parametrize(
    ("overrides", "heads", "cached"),
    [
        ([], 3, CONTEXT),
        (["attention=mqa"], 1, CONTEXT),
        (["pattern=window", "pattern.window=64"], 3, 64),
        (["precision=bf16"], 3, CONTEXT),
    ],
)
def test_the_cache_of_keys_and_values(overrides, heads, cached):
    """2 (keys and values) of every layer, head of keys and token kept, 32 channels each, over the tokens
    of the context.
    """
    size = 2 if "precision=bf16" in overrides else 4
    expected = 2 * LAYERS * heads * 32 * cached * size / CONTEXT
    assert counts(resolved(*overrides)).kv_cache_bytes_per_token == expected


@pytest.mark.parametrize(
    ("changes", "each"),
    [
        ({"norm": "layernorm"}, 4),
        ({"norm": "layernorm", "activation": "gelu"}, 2),
        ({"norm": "layernorm", "activation": "gelu", "shared": True}, 2),
        ({}, 4),
    ],
)
def test_activations_are_those_that_torch_keeps(changes, each):
    """Distinct tensors saved for backward, weights and position tables apart; beyond the count stand
    statistics alone: a log-sum-exp a head, two moments a LayerNorm or one an RMSNorm (which on a CPU keeps
    x / rms as well), and token ids.
    """
    shared, base = changes.get("shared", False), tiny_run()
    shape = dataclasses.replace(base.shape, num_kv_heads=1 if shared else None)
    run = tiny_run(shape=shape, **{k: v for k, v in changes.items() if k != "shared"})
    model, rows, length = build(run), 3, shape.context_length
    known = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    kept: dict[int, torch.Tensor] = {}

    def keep(saved: torch.Tensor) -> torch.Tensor:
        kept[saved.untyped_storage().data_ptr()] = saved
        return saved

    text = tokens(rows, length + 1)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
        loss = cross_entropy(model(text[:, :-1]).logits, text[:, 1:])
    measured = sum(t.untyped_storage().nbytes() for name, t in kept.items() if name not in known)
    norms, d = 2 * shape.num_layers + 1, shape.d_model
    statistics = 4 * shape.num_layers * shape.num_heads + 4 * norms * (2 if "norm" in changes else 1 + d)
    if shared:  # on a CPU each head reads a copy (lab/model/kernel.py)
        statistics += 4 * shape.num_layers * 2 * (shape.num_heads - 1) * shape.head_dim
    ids = 8 * (length + 1) / length + 8
    counted = counts(run).activation_bytes_per_token
    assert loss.requires_grad
    assert measured / (rows * length) == pytest.approx(counted + statistics + ids, abs=0.5)
    width = 2 * (shape.num_heads + shape.kv_heads) * shape.head_dim
    assert counted == 4 * (shape.num_layers * (4 * d + width + each * shape.d_ff) + 2 * d + shape.vocab_size)
