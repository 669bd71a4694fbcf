"""What of a run do its logits depend on, and which architectures of transformers have it?

The declarations stand beside the variants (lab/model/published.py). Every field of a `RunConfig` is here: its
variants by name and parameters, its sizes and switches by key, or it says how weights came to be and not what
they compute. A field that is none of these is a feature that no architecture has.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.config.schema import RunConfig, Shape
from lab.model import (
    activation,
    attention,
    bias,
    block,
    ffn,
    norm,
    norm_placement,
    pattern,
    position,
    transformer,
)
from lab.model.published import (
    ANY,
    AT_ANY_VALUE,
    EVERY,
    GPT_LIKE,
    Architecture,
    Counterpart,
    Table,
    able,
    every_but,
)

AXES: dict[str, Mapping[str, Counterpart]] = {
    "block": block.PUBLISHED,
    "norm_placement": norm_placement.PUBLISHED,
    "norm": norm.PUBLISHED,
    "activation": activation.PUBLISHED,
    "position": position.PUBLISHED,
    "bias": bias.PUBLISHED,
    "pattern": pattern.PUBLISHED,
    "ffn": ffn.PUBLISHED,
}
# The configuration of every architecture gives these; how they relate is a matter of `_relations`.
SIZES = (
    "d_model",
    "num_layers",
    "num_heads",
    "head_dim",
    "num_kv_heads",
    "d_ff",
    "vocab_size",
    "context_length",
)
KEYS: Mapping[str, Table] = (
    {f"shape.{size}": AT_ANY_VALUE for size in SIZES}
    | {"shape.num_kv_heads": {None: EVERY, ANY: EVERY}, "stability.z_loss": AT_ANY_VALUE}
    | attention.PUBLISHED_KEYS
    | transformer.PUBLISHED_KEYS
)
# How the weights came to be; and the tokenizer, which has files of its own.
NOT_COMPUTED = {
    *("seed", "init", "init_from", "regularization", "optimizer", "schedule", "precision"),
    *("data", "data_fingerprint", "vocab", "steps", "rows", "micro_rows", "evaluation", "monitor"),
}


@dataclass(frozen=True)
class Feature:
    """One choice of a run, and which architectures have which of its values.

    key: as a user would set it; table: {value: architectures}, empty where nobody has declared it.
    """

    key: str
    value: object
    table: Table

    @property
    def architectures(self) -> frozenset[Architecture]:
        """Those that have this value; none where it is declared nowhere."""
        return able(self.table, self.value)

    def values_of(self, architecture: Architecture) -> list[object]:
        """The values that an architecture has."""
        return [value for value, having in self.table.items() if architecture in having]


def features(run: RunConfig) -> Iterator[Feature]:
    """Every choice that the logits may depend on, whether anyone has declared it or not."""
    for field in dataclasses.fields(run):
        value = getattr(run, field.name)
        if field.name in NOT_COMPUTED:
            continue
        if field.name in AXES:
            yield from _of_variant(field.name, value)
        elif dataclasses.is_dataclass(value):
            for leaf in dataclasses.fields(value):
                key = f"{field.name}.{leaf.name}"
                yield Feature(key, _acting(run, key, getattr(value, leaf.name)), KEYS.get(key, {}))
        else:
            yield Feature(field.name, value["name"] if isinstance(value, dict) else value, {})
    yield from _relations(run.shape)


def _of_variant(axis: str, choice: Mapping[str, object]) -> Iterator[Feature]:
    declared, name = AXES[axis], str(choice["name"])
    yield Feature(axis, name, {variant: other.architectures for variant, other in declared.items()})
    if name in declared:
        for key, value in choice.items():
            if key != "name":
                yield Feature(f"{axis}.{key}", value, declared[name].parameters.get(key, {}))


def _acting(run: RunConfig, key: str, value: object) -> object:
    """What a key does in this run: a head of its own is never scaled, whatever the key says."""
    return value and run.embedding.tied if key == "embedding.head_scaled" else value


def _relations(shape: Shape) -> Iterator[Feature]:
    """What architectures without a size of their own for it derive from others."""
    filling = shape.num_heads * shape.head_dim == shape.d_model
    whole = every_but("cohere2", *GPT_LIKE)
    yield Feature(
        "heads",
        f"{'' if filling else 'not '}filling d_model",
        {"filling d_model": EVERY, "not filling d_model": whole},
    )
    grouped = "fewer" if shape.kv_heads < shape.num_heads else "all"
    yield Feature("attention.num_kv_heads", grouped, {"all": EVERY, "fewer": every_but(*GPT_LIKE)})
    yield Feature("ffn_ratio", shape.d_ff / shape.d_model, {4.0: EVERY, ANY: every_but("bloom")})
