"""What the export says it can, transformers can; what it can't is refused by name, however it was left out.

From one run of each architecture every variant of every axis, every parameter of a variant and every size and
switch of the model is moved: transformers then computes our logits, or the export refuses.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from lab.checkpoint.export import architecture, hf_config
from lab.checkpoint.export.families import FAMILIES
from lab.checkpoint.export.features import AXES as DECLARED
from lab.checkpoint.export.features import KEYS, NOT_COMPUTED, features
from lab.config.schema import RunConfig, Shape, Stability
from lab.config.strict import ConfigError
from lab.model.published import ARCHITECTURES, Architecture, Table, able
from lab.model.transformer import Transformer
from tests.checkpoint.carried_over import MODELS, Exact, ours, run_of, theirs
from tests.tiny_model import AXES, SMALL, choice, tokens

pytestmark = pytest.mark.slow

RECORDS = ("shape", "embedding", "stability")
RELATIONS = ("heads", "attention", "ffn_ratio")  # of sizes, under the keys that a user sets
# The baseline, and one run of each architecture.
BASES = ("none", *{kind: name for name, (kind, _) in MODELS.items()}.values())
SEED_OF_KEYS = {"num_kv_heads": 2, "attention_softcap": 2.0, "output_softcap": 3.0}
OTHER_WORDS = {"keep": "none", "none": "keep"}
Change = tuple[str, RunConfig]  # the key that is moved, and the run with it


def moved(value: Any, name: str) -> list[Any]:
    """Other values of a key; the first that makes a model is taken."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, str):
        return [OTHER_WORDS[value]]
    if value is None:
        return [SEED_OF_KEYS[name]]
    return [2 * value, value // 2, value + 1] if value else [0.5]


def buildable(candidates: list[RunConfig]) -> RunConfig | None:
    """The first that our own model doesn't refuse."""
    for run in candidates:
        try:
            with torch.device("meta"):
                Transformer(run)
            return run
        except ConfigError:
            pass
    return None


def variants(run: RunConfig, axis: str) -> Iterator[Change]:
    """Every other variant of an axis, and every parameter of each of them moved."""
    for name in AXES[axis].VARIANTS:
        own = getattr(run, axis)
        chosen = own if own["name"] == name else choice(axis, name) | SMALL.get((axis, name), {})
        if chosen != own and (other := buildable([dataclasses.replace(run, **{axis: chosen})])):
            yield axis, other
        for key in chosen.keys() - {"name"}:
            values = moved(chosen[key], key)
            runs = [dataclasses.replace(run, **{axis: chosen | {key: value}}) for value in values]
            if other := buildable(runs):
                yield f"{axis}.{key}", other


def leaves(run: RunConfig, record: str) -> Iterator[Change]:
    """Every key of a record moved."""
    values = getattr(run, record)
    for field in dataclasses.fields(values):
        others = moved(getattr(values, field.name), field.name)
        runs = [
            dataclasses.replace(run, **{record: dataclasses.replace(values, **{field.name: other})})
            for other in others
        ]
        if other := buildable(runs):
            yield f"{record}.{field.name}", other


def difference(run: RunConfig) -> float:
    """The largest between our logits and those of transformers, in float64."""
    model, batch = ours(run), tokens(2, 17)
    other = theirs(run, model, torch.float64)
    with Exact():
        expected = other(batch, use_cache=False).logits
    return (model.double()(batch).logits - expected).abs().max().item()


@pytest.mark.parametrize("part", [*AXES, *RECORDS])
@pytest.mark.parametrize("name", BASES)
def test_whatever_is_moved_has_equal_logits_or_is_refused_by_name(name: str, part: str) -> None:
    run = run_of(name)
    for key, other in variants(run, part) if part in AXES else leaves(run, part):
        try:
            architecture(other)
        except ConfigError as error:
            named = {problem.partition(" = ")[0].partition(".")[0] for problem in error.problems}
            # Of the baseline Llama is the nearest, whatever is moved, so what it hasn't is what was moved.
            exact = name == "none" and part != "shape"
            assert named == {part} if exact else named <= {*AXES, *RECORDS, *RELATIONS}, (key, named)
        else:
            assert difference(other) <= 1e-9, (key, getattr(other, part))


def test_every_declaration_is_used_by_a_run_above() -> None:
    """The run of each architecture can have every variant that is declared, so all are compared above."""
    runs = {architecture(run): run for run in map(run_of, MODELS)}
    assert set(runs) == set(ARCHITECTURES) == set(FAMILIES)
    for axis, declared in DECLARED.items():
        for name, counterpart in declared.items():
            given = choice(axis, name) | SMALL.get((axis, name), {})
            assert given.keys() - {"name"} == counterpart.parameters.keys(), f"{axis}={name}"
            for where in counterpart.architectures:
                fitting = {
                    key: given[key]
                    if where in able(table, given[key])
                    else next(iter(table_of(table, where)))
                    for key, table in counterpart.parameters.items()
                }
                other = dataclasses.replace(runs[where], **{axis: {"name": name} | fitting})
                assert where in {*ARCHITECTURES} and architecture(other) is not None, (axis, name, where)


def table_of(table: Table, where: Architecture) -> list[Any]:
    return [value for value, having in table.items() if where in having]


def test_training_leaves_no_mark_on_the_model() -> None:
    """The export leaves aside what the model is built without, and dropout, which evaluation has not."""
    run = run_of("none")
    nothing: dict[str, Any] = dict.fromkeys(NOT_COMPUTED - {"regularization"})
    dropping = dataclasses.replace(run.regularization, dropout=0.5)
    other = dataclasses.replace(run, regularization=dropping)
    Transformer(dataclasses.replace(other, **nothing))
    assert difference(other) <= 1e-9


@dataclasses.dataclass(frozen=True)
class WithMemory(RunConfig):
    memory: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class WithBudget(RunConfig):
    thoughts: int


@dataclasses.dataclass(frozen=True)
class Calmer(Stability):
    calm: float


@dataclasses.dataclass(frozen=True)
class Thicker(Shape):
    thickness: int


BASE = run_of("none")


def grown(record: str, kind: type, **more: Any) -> RunConfig:
    """The baseline with one more key in a record."""
    return dataclasses.replace(BASE, **{record: kind(**vars(getattr(BASE, record)), **more)})


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (WithMemory(**vars(BASE), memory={"name": "off"}), "memory = off: declares no counterpart"),
        (WithBudget(**vars(BASE), thoughts=0), "thoughts = 0: declares no counterpart"),
        (grown("stability", Calmer, calm=0.0), "stability.calm = 0.0: declares no counterpart"),
        (grown("shape", Thicker, thickness=1), "shape.thickness = 1: declares no counterpart"),
        (
            dataclasses.replace(BASE, position=BASE.position | {"twist": 0.0}),
            "position.twist = 0.0: declares no counterpart",
        ),
        (
            dataclasses.replace(BASE, position={"name": "spiral"}),
            "position = spiral: LlamaForCausalLM, .* has rope alone",
        ),
    ],
    ids=["axis", "key", "key of a record", "size", "parameter of a variant", "variant"],
)
def test_what_nobody_has_declared_is_refused_by_name(run: RunConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        hf_config(run)
    assert len(caught.value.problems) == 1


def test_everything_that_a_run_has_is_declared() -> None:
    """A new axis, or a new key of what the model reads, says here what its export means."""
    assert all(feature.architectures for feature in features(BASE))
    for record in RECORDS:
        of_record = {f"{record}.{field.name}" for field in dataclasses.fields(getattr(BASE, record))}
        assert of_record == {key for key in KEYS if key.startswith(f"{record}.")}
