"""Which architectures of Hugging Face transformers compute what a variant computes?

Each axis file declares it beside its variants, in `PUBLISHED`; attention and the transformer declare it for
the keys of the configuration that they read, in `PUBLISHED_KEYS`. A run can be exported as an architecture
that all of its choices name (lab/checkpoint/export). What declares nothing is named by none, so the export
refuses it: a new variant, a new parameter of a variant or a new axis can't go over with its meaning lost.

A declaration says that the logits are equal, however the architecture may be trained elsewhere.
"""

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

# By what transformers calls them in `model_type`; the first is the nearest where several are as near.
Architecture = Literal[
    "llama",
    "qwen2",
    "qwen3",
    "mistral",
    "mixtral",
    "olmo",
    "olmo2",
    "gemma2",
    "cohere2",
    "gpt2",
    "gpt_neox",
    "bloom",
]
ARCHITECTURES: tuple[Architecture, ...] = typing.get_args(Architecture)
EVERY = frozenset(ARCHITECTURES)
# Those with a plain feed-forward layer, LayerNorm and a bias in every matrix of a block.
GPT_LIKE: frozenset[Architecture] = frozenset({"gpt2", "gpt_neox", "bloom"})

# {value of a key: the architectures that can have it}; ANY stands for every number that isn't named.
Table = Mapping[object, frozenset[Architecture]]
ANY = "a number"
AT_ANY_VALUE: Table = {ANY: EVERY}


@dataclass(frozen=True)
class Counterpart:
    """The architectures that have a variant, and for each of its parameters those that can have its value."""

    architectures: frozenset[Architecture]
    parameters: Mapping[str, Table] = field(default_factory=dict)


def counterpart(*architectures: Architecture, **parameters: Table) -> Counterpart:
    """A counterpart in these architectures alone."""
    return Counterpart(frozenset(architectures), parameters)


def every_but(*architectures: Architecture) -> frozenset[Architecture]:
    """All architectures but these."""
    return EVERY - {*architectures}


def able(table: Table, value: object) -> frozenset[Architecture]:
    """The architectures that can have a key at `value`: none where the table is silent."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return table.get(value, table.get(ANY, frozenset()) if number else frozenset())
