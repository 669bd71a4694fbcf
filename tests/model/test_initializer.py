"""Where a model starts: each role's distribution, and one axis leaving the tensors of another alone."""

import dataclasses
import math
from typing import Any

import pytest
import scipy.stats
import torch
from torch import nn

from lab.model.initializer import initialize
from lab.model.transformer import Transformer
from tests.tiny_model import EMBEDDING, INIT, STABILITY, build, tiny


@pytest.mark.parametrize(
    ("changes", "added"),
    [
        ({"activation": "gelu"}, set()),
        ({"norm": "layernorm"}, {"norm_bias"}),
        ({"position": "learned"}, {"position"}),
        ({"norm_placement": "double"}, {"norm_gain"}),
        ({"stability": dataclasses.replace(STABILITY, qk_norm=True)}, {"norm_gain"}),
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
    model = build(tiny(embedding=dataclasses.replace(EMBEDDING, tied=True)))
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
