"""What has each word of a told text cost? Decisions over whole words, and the forced words between them.

A decision picks one of several alternatives (lab/data/stories/decision_table.py). Nothing else is decided
until it is out, so a text has one sequence of decisions. Their bits are spread over the words such that

    sum of the bits up to a word  =  -log2 P(a text starts with exactly these whole words)

A word that the story forces costs nothing; `recall` says it, and knows what else a reader without the
skill would expect there. Units: bits. Words carry the white space before them and the punctuation around
them.
"""

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple
from zlib import crc32

from lab.data.stories.decision_table import Branches, DecisionTable, spaced

SKILLS = ("lexical", "collocation", "syntax", "agreement", "copy", "state", "counting", "moral", "facts")
LEXICAL, COLLOCATION, SYNTAX, AGREEMENT, COPY, STATE, COUNTING, MORAL, FACTS = range(len(SKILLS))
MAX_CHOICES = 3

Pick = Callable[[Sequence[float], Container[int]], int]
"""Chooses an index, given cumulative weights and the indices that are out of the question."""


class Word(NamedTuple):
    """A word of the text: where it ends (bytes), its exact surprisal (bits), and what predicting it tests."""

    end: int
    bits: float
    skill: int


class StatedChoice(NamedTuple):
    """After byte `start`, `truth` follows; the grammar gives `other` probability 0 there."""

    start: int
    skill: int
    truth: str
    other: str


class Moment(NamedTuple):
    """A possible forced choice: in place of the words `start` ... `stop` - 1 of the text, one of the
    `candidates` that is not `allowed` there, with the punctuation `before` and `after` it.
    """

    start: int
    stop: int
    skill: int
    candidates: Sequence[str]
    allowed: Container[str]
    before: str
    after: str


@lru_cache(maxsize=65536)
def _noisy(candidates: tuple[str, ...], truth: int, noise: float, skill: int) -> DecisionTable:
    weights = [noise / (len(candidates) - 1)] * len(candidates)
    weights[truth] = 1.0 - noise
    return DecisionTable(candidates, weights, skill)


_EQUAL = [tuple(float(i + 1) for i in range(count)) for count in range(64)]


class Telling:
    """The text told so far: its words, their bits and skills. Given `heard`, the words of a text, it
    recognises them.
    """

    def __init__(self, pick: Pick, noise: float = 0.0, heard: Sequence[str] | None = None) -> None:
        self._pick = pick
        self._noise = noise
        self._heard = heard
        self.words: list[str] = []
        self.bits: list[float] = []
        self.skills: list[int] = []
        self._moments: list[Moment] = []

    def say(self, table: DecisionTable, excluded: Sequence[int] = ()) -> int:
        """Picks an alternative, tells it and returns its index."""
        index = (
            self._recognise(table, excluded)
            if self._heard is not None
            else self._pick(table.cumulative, excluded)
        )
        words = table.words[index]
        self.words += words
        self.bits += table.bits_without(index, excluded) if excluded else table.bits[index]
        self.skills += table.skills[index]
        return index

    def say_one_of(self, alternatives: Sequence[str], skill: int) -> int:
        """The same for a few alternatives, all equally likely, that the story has made."""
        agreeing = [spaced(alternative) for alternative in alternatives]
        if self._heard is not None:
            index = self._recognise(DecisionTable(alternatives, (1.0,) * len(agreeing), skill), ())
        else:
            index = self._pick(_EQUAL[len(agreeing)], ()) if len(agreeing) > 1 else 0
        told = agreeing[index]
        for k, word in enumerate(told):
            narrower = [words for words in agreeing if words[k : k + 1] == (word,)]
            if any(len(words) == k + 1 < len(told) for words in narrower):
                break
            self.bits.append(math.log2(len(agreeing) / len(narrower)))
            agreeing = narrower
        if len(agreeing) > 1:
            raise ValueError(f"ambiguous grammar: {alternatives[index]!r} starts another of {alternatives!r}")
        self.words += told
        self.skills += (skill,) * len(told)
        return index

    def force(self, text: str, skill: int) -> None:
        """Tells what the story so far decides."""
        words = spaced(text)
        self.words += words
        self.bits += (0.0,) * len(words)
        self.skills += (skill,) * len(words)

    def recall(
        self, truth: str, candidates: Sequence[str], skill: int, before: str = "", after: str = ""
    ) -> None:
        """Tells the forced `truth`; with noise e, another candidate instead with probability e."""
        start = len(self.words)
        if self._noise and len(candidates) > 1:
            dressed = tuple(before + candidate + after for candidate in candidates)
            index = candidates.index(truth)
            if self.say(_noisy(dressed, index, self._noise, skill)) != index:
                return
        else:
            self.force(before + truth + after, skill)
        if len(candidates) > 1:
            self.offer(start, skill, candidates, (truth,), before, after)

    def offer(
        self,
        start: int,
        skill: int,
        candidates: Sequence[str],
        allowed: Container[str],
        before: str = "",
        after: str = "",
    ) -> None:
        """Remembers a possible forced choice: a candidate that is not allowed, in place of the words from
        `start`.
        """
        self.offer_span(start, len(self.words), skill, candidates, allowed, before, after)

    def offer_span(
        self,
        start: int,
        stop: int,
        skill: int,
        candidates: Sequence[str],
        allowed: Container[str],
        before: str,
        after: str,
    ) -> None:
        """The same for the words from `start` to before `stop`."""
        self._moments.append(Moment(start, stop, skill, candidates, allowed, before, after))

    def _recognise(self, table: DecisionTable, excluded: Container[int]) -> int:
        assert self._heard is not None
        node: Branches | int = table.tree
        at = len(self.words)
        while at < len(self._heard) and isinstance(node, dict) and self._heard[at] in node:
            node = node[self._heard[at]][1]
            at += 1
        if isinstance(node, dict) or node in excluded:
            raise Unheard(at - (not isinstance(node, dict)))
        return node

    def finish(
        self, translate: Callable[[str], str] | None = None
    ) -> tuple[str, tuple[Word, ...], tuple[StatedChoice, ...]]:
        """The text, its words and its forced choices, at most `MAX_CHOICES` a skill, spread over the text."""
        words = [translate(word) for word in self.words] if translate else self.words
        words[0] = words[0][1:]
        ends = list(accumulate(map(len, words)))
        by_skill: dict[int, list[Moment]] = {}
        for moment in self._moments:
            by_skill.setdefault(moment.skill, []).append(moment)
        choices = []
        for skill, moments in by_skill.items():
            for i in range(min(MAX_CHOICES, len(moments))):
                start, stop, _, candidates, allowed, before, after = moments[
                    i if len(moments) <= MAX_CHOICES else (len(moments) - 1) * i // (MAX_CHOICES - 1)
                ]
                truth = "".join(words[start:stop])
                offset = crc32(f"{start}{truth}".encode())
                for k in range(len(candidates)):
                    other = candidates[(offset + k) % len(candidates)]
                    if other not in allowed:
                        told = spaced(truth[0] + before + other + after)
                        other = "".join(map(translate, told) if translate else told)
                        choices.append(StatedChoice(ends[start - 1], skill, truth, other))
                        break
        choices.sort()
        return (
            "".join(words),
            tuple(map(Word._make, zip(ends, self.bits, self.skills, strict=True))),
            tuple(choices),
        )


class Unheard(ValueError):
    """The text leaves the grammar at its word number `args[0]`."""


def random_pick(key: str) -> Pick:
    """Independent draws from a stream that depends on `key` alone."""
    draw = random.Random(key).random

    def pick(cumulative: Sequence[float], excluded: Container[int]) -> int:
        while True:
            index = bisect_right(cumulative, draw() * cumulative[-1], hi=len(cumulative) - 1)
            if index not in excluded:
                return index

    return pick
