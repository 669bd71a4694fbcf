"""The contract of every variant of every structural axis. A new variant is found here by itself."""

import dataclasses
import inspect
import math
from typing import Any

import pytest
import torch

from lab.config.schema import STRUCTURAL, RunConfig
from lab.model.initializer import DISTRIBUTIONS
from lab.model.norm_placement import VARIANTS as PLACEMENTS
from lab.model.transformer import Transformer
from tests.tiny_model import (
    AXES,
    CONF,
    EMBEDDING,
    PAIRS,
    SHAPE,
    STABILITY,
    build,
    choice,
    loss_of,
    tiny,
    tokens,
)

every_variant = pytest.mark.parametrize(
    ("axis", "name"), PAIRS, ids=[f"{axis}={name}" for axis, name in PAIRS]
)
every_axis = pytest.mark.parametrize("axis", AXES)


def test_structural_axes_of_schema_code_and_conf_are_the_same() -> None:
    with_names = {path.parent.name for path in CONF.glob("*/*.yaml") if path.parent.name in STRUCTURAL}
    assert set(AXES) == set(STRUCTURAL) == with_names


@every_axis
def test_yaml_stems_are_the_variants(axis: str) -> None:
    assert {path.stem for path in (CONF / axis).glob("*.yaml")} == set(AXES[axis].VARIANTS)


@every_variant
def test_yaml_gives_every_parameter_of_the_constructor_and_no_other(axis: str, name: str) -> None:
    given, variant = choice(axis, name), AXES[axis].VARIANTS[name]
    assert given.pop("name") == name
    parameters = inspect.signature(variant).parameters.values() if callable(variant) else ()
    assert set(given) == {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    assert all(p.default is inspect.Parameter.empty for p in parameters), (
        "a default in code hides the YAML's value"
    )


@every_variant
def test_loss_starts_near_that_of_a_uniform_guess(axis: str, name: str) -> None:
    with torch.no_grad():
        loss = loss_of(build(tiny(**{axis: name})), tokens(16, 24))
    assert loss.item() == pytest.approx(math.log(SHAPE.vocab_size), rel=0.1)


@every_variant
def test_a_changed_token_moves_only_what_follows(axis: str, name: str) -> None:
    model, batch, at = build(tiny(**{axis: name})), tokens(2, 12), 7
    changed = batch.clone()
    changed[:, at] = (changed[:, at] + 1) % SHAPE.vocab_size
    with torch.no_grad():
        moved = (model(changed).logits - model(batch).logits).abs().amax(-1)
    assert moved[:, :at].max() <= 1e-6
    assert moved[:, at:].min() > 1e-4


@every_variant
def test_every_parameter_has_a_role_and_a_finite_gradient(axis: str, name: str) -> None:
    model = build(tiny(**{axis: name}))
    loss_of(model, tokens(2, SHAPE.context_length + 1)).backward()
    roles = model.roles()
    for parameter_name, parameter in model.named_parameters():
        assert roles.pop(parameter_name) in DISTRIBUTIONS
        assert parameter.grad is not None and parameter.grad.isfinite().all() and parameter.grad.any(), (
            parameter_name
        )
    assert not roles


@every_axis
def test_every_two_variants_train_differently(axis: str) -> None:
    trained = {}
    for name in AXES[axis].VARIANTS:
        # RMSNorm has no bias to leave out.
        model = build(tiny(**{axis: name, **({"norm": "layernorm"} if axis == "bias" else {})}))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(2):
            optimizer.zero_grad()
            loss_of(model, tokens(2, 17, seed=step)).backward()
            optimizer.step()
        trained[name] = model.get_parameter("blocks.0.attention.v.weight").detach()
    names = list(trained)
    same = [
        (a, b)
        for i, a in enumerate(names)
        for b in names[:i]
        if torch.allclose(trained[a], trained[b], rtol=0, atol=1e-7)
    ]
    assert not same


@pytest.mark.slow
@every_variant
def test_one_batch_can_be_learned_by_heart(axis: str, name: str) -> None:
    model, batch = build(tiny(**{axis: name})), tokens(2, 13)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


def closed_form(config: RunConfig) -> int:
    """The number of parameters, from the formulas of the papers that the axis files cite."""
    s = config.shape
    norm = {"layernorm": 2, "rmsnorm": 1, "nonparametric": 0, "none": 0}[config.norm["name"]] * s.d_model
    norms = {"pre": 2, "post": 2, "double": 4, "output": 2, "deepnorm": 2}[config.norm_placement["name"]]
    norms = norms * s.num_layers // (2 if config.block["name"] == "parallel" else 1)
    norms += config.norm_placement["name"] not in {"post", "deepnorm"}
    norms += config.embedding.normed
    experts = config.ffn.get("experts", 0)
    networks = (experts or 1) + config.ffn.get("shared", 0)
    matrices = (
        3 if config.activation["name"] in {"glu", "reglu", "geglu", "geglu_tanh", "swiglu", "bilinear"} else 2
    )
    layer = 2 * s.d_model * (s.num_heads + s.kv_heads) * s.head_dim + networks * matrices * s.d_model * s.d_ff
    layer += experts * s.d_model
    layer += 2 * s.head_dim * config.stability.qk_norm
    tables = s.vocab_size * s.d_model * (1 if config.embedding.tied else 2)
    position = config.position
    tables += s.context_length * s.d_model * (position["name"] == "learned")
    if position["name"] == "t5":
        tables += position["num_buckets"] * s.num_heads
    if position["name"] == "relative":
        layer += 2 * (position["max_distance"] + 1) * s.head_dim
    qkv, of_norm = (s.num_heads + 2 * s.kv_heads) * s.head_dim, norms * s.d_model
    layer += {"qkv": qkv, "all": qkv + 2 * s.d_model + (matrices - 1) * s.d_ff}.get(config.bias["name"], 0)
    if config.norm["name"] == "layernorm" and config.bias["name"] in {"none", "qkv"}:
        tables -= of_norm
    return s.num_layers * layer + norms * norm + tables


@pytest.mark.parametrize(
    "changes",
    [{axis: name} for axis, name in PAIRS]
    + [{"norm_placement": place, "norm": "layernorm"} for place in PLACEMENTS]
    + [{"bias": bias, "norm": "layernorm"} for bias in AXES["bias"].VARIANTS]
    + [{"bias": "all", "activation": "gelu", "shape": dataclasses.replace(SHAPE, num_kv_heads=1)}]
    + [
        {"embedding": dataclasses.replace(EMBEDDING, tied=True)},
        {"embedding": dataclasses.replace(EMBEDDING, normed=True)},
        {"stability": dataclasses.replace(STABILITY, qk_norm=True)},
    ],
    ids=str,
)
def test_counted_parameters_are_the_closed_form(changes: dict[str, Any]) -> None:
    config = tiny(**changes)
    with torch.device("meta"):
        counted = sum(parameter.numel() for parameter in Transformer(config).parameters())
    assert counted == closed_form(config)
