"""How is a template read? As steps: literal words, a decision, a described noun, or a slot that the state of
the story fills.

`[one|of|several]` is a decision between words of the template. `{name}` is a decision between the words of
a list where one has that name; `{a_name}` a noun with its article and adjectives where nouns of that name
are described; any other slot is the method `slot_name` of lab/data/stories/slots.py, and `{name:argument}`
hands it an argument. Punctuation around a slot belongs to its first and last word.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from lab.data.stories.decision_table import DecisionTable, spaced
from lab.data.stories.telling import SYNTAX

PART = re.compile(r"[^\s\[\]{}]*(?:\[[^]]*\]|\{[^}]*\})[^\s\[\]{}]*|\S+")
SLOT = re.compile(r"(.*)(?:\[([^]]*)\]|\{([^}]*)\})(.*)")


class DescribedNouns(NamedTuple):
    """Nouns with their own adjectives, "a tiny golden key".

    fitting: the nouns that go with given adjectives.
    """

    table: DecisionTable
    nouns: tuple[str, ...]
    fitting: dict[tuple[str, ...], frozenset[str]]


class LiteralWords(NamedTuple):
    """Words in a row that stand in the template itself: they cost nothing."""

    words: tuple[str, ...]
    bits: tuple[float, ...]
    skills: tuple[int, ...]


class DrawnWords(NamedTuple):
    """One alternative of `table`. listed: the list without punctuation that a word class draws from."""

    table: DecisionTable
    listed: DecisionTable | None
    before: str
    after: str


class DrawnNoun(NamedTuple):
    """An article, adjectives and their noun, out of `table`."""

    table: DecisionTable
    nouns: DescribedNouns
    after: str


class StateSlot(NamedTuple):
    """What the state of the story allows or forces: the method that tells it, and what it is given: the
    punctuation before and after, and the argument where there is one.
    """

    method: str
    arguments: tuple[str, ...]


Step = LiteralWords | DrawnWords | DrawnNoun | StateSlot


def compile_template(
    template: str,
    *,
    lists: Mapping[str, DecisionTable],
    described: Mapping[str, DescribedNouns],
    weights: Callable[[int], Sequence[float]],
) -> tuple[Step, ...]:
    """The template as steps; literal words in a row are one step.

    lists, described: by the name of their slot. weights: of so many alternatives in brackets.
    """
    steps: list[Step] = []
    literal: list[str] = []

    def flush() -> None:
        if literal:
            words = spaced(" ".join(literal))
            steps.append(LiteralWords(words, (0.0,) * len(words), (SYNTAX,) * len(words)))
            literal.clear()

    for part in PART.findall(template):
        slot = SLOT.fullmatch(part)
        if not slot:
            literal.append(part)
            continue
        flush()
        before, options, name, after = slot.groups()
        if options:
            choices = options.split("|")
            table = DecisionTable(choices, weights(len(choices)), SYNTAX).dressed(before, after)
            steps.append(DrawnWords(table, None, before, after))
        elif name in lists:
            table = lists[name]
            steps.append(DrawnWords(table.dressed(before, after), table, before, after))
        elif name[2:] in described and name.startswith("a_"):
            nouns = described[name[2:]]
            steps.append(DrawnNoun(nouns.table.dressed(before, after), nouns, after))
        else:
            name, *argument = name.split(":")
            steps.append(StateSlot(f"slot_{name}", (before, after, *argument)))
    flush()
    return tuple(steps)
