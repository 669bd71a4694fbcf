"""Any choice of variants together is a sound model, or is refused before the run with a reason."""

import dataclasses

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.config.schema import RunConfig
from lab.config.strict import ConfigError
from lab.model.transformer import Transformer
from lab.train.optimizer import parameter_groups
from tests.tiny_model import AXES, SHAPE, STABILITY, build, loss_of, tiny, tokens

LENGTH = SHAPE.context_length


@st.composite
def combinations(draw: st.DrawFn) -> RunConfig:
    """One variant of every structural axis, some stability tricks, and key heads that are shared or not."""
    variants = {
        axis: draw(st.sampled_from(sorted(module.VARIANTS)), label=axis) for axis, module in AXES.items()
    }
    stability = dataclasses.replace(
        STABILITY,
        qk_norm=draw(st.booleans()),
        attention_softcap=draw(st.sampled_from([None, 5.0])),
        output_softcap=draw(st.sampled_from([None, 5.0])),
    )
    shape = dataclasses.replace(SHAPE, num_kv_heads=draw(st.sampled_from([None, 1])))
    return tiny(**variants, stability=stability, shape=shape)


def built(config: RunConfig) -> Transformer | None:
    try:
        return build(config)
    except ConfigError as error:
        assert all(len(problem) > 30 and problem.rstrip().endswith(".") for problem in error.problems)
        return None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(combinations(), st.integers(1, LENGTH - 1))
def test_any_combination_is_sound_or_refused(config: RunConfig, changed: int) -> None:
    model = built(config)
    if model is None:
        return
    batch = tokens(2, LENGTH + 1)
    out = model(batch[:, :-1])
    assert torch.isfinite(out.logits).all() and out.logits.shape == (2, LENGTH, SHAPE.vocab_size)

    other = batch.clone()
    other[:, changed] = (other[:, changed] + 1) % SHAPE.vocab_size
    moved = (model(other[:, :-1]).logits - out.logits).abs().amax(dim=(0, 2))
    assert moved[:changed].max() == 0 and moved[changed] > 0, "a token moves what comes before it"

    (loss_of(model, batch) + out.aux).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name

    groups = parameter_groups(model.roles())
    names = [name for group in groups.values() for name in group]
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(combinations())
def test_any_combination_learns(config: RunConfig) -> None:
    model = built(config)
    if model is None:
        return
    batch = tokens(2, LENGTH + 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    first = loss_of(model, batch).item()
    for _ in range(15):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
    assert loss_of(model, batch).item() < first
