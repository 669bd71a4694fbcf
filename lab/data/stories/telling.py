"""What has each word of a told text cost? Decisions over whole words, and the forced words between them.

A decision picks one of several alternatives, each a sequence of whole words and none the start of another
(Cover & Thomas 2006, section 5.1: prefix codes are uniquely decodable). Nothing else is decided until it
is out, so a text has one sequence of decisions. Their bits are spread over the words such that

    sum of the bits up to a word  =  -log2 P(a text starts with exactly these whole words)

A word that the story forces costs nothing; `recall` says it, and knows what else a reader without the
skill would expect there. Units: bits. Words carry the white space before them and the punctuation around
them.
"""

import copy
import math
import random
from bisect import bisect_right
from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple
from zlib import crc32

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


class Choice(NamedTuple):
    """After byte `start`, `truth` follows; the grammar gives `other` probability 0 there."""

    start: int
    skill: int
    truth: str
    other: str


@lru_cache(maxsize=65536)
def spaced(text: str) -> tuple[str, ...]:
    """The words with the white space before them: a leading newline begins a paragraph."""
    first, *rest = text.split()
    return (("\n" if text[0] == "\n" else " ") + first, *[" " + word for word in rest])


def zipf(count: int, exponent: float) -> tuple[float, ...]:
    """Zipf-Mandelbrot weights of the ranks 0 ... count - 1 (Mandelbrot 1953)."""
    return tuple((rank + 2.7) ** -exponent for rank in range(count))


class Table:
    """The alternatives of a decision with their weights, and what each word of each costs and tests.

    skills: of the first word, the second, ...; the last one counts for all further words.
    """

    def __init__(self, items: Sequence[str], weights: Sequence[float], *skills: int) -> None:
        self.items = tuple(items)
        self.known = frozenset(items)
        self.weights = tuple(weights)
        self.words = [spaced(item) for item in items]
        self.skills = [(skills + skills[-1:] * len(words))[: len(words)] for words in self.words]
        self.cumulative = tuple(accumulate(weights))
        self._tree: dict[str, tuple[str, Any]] | None = self._grow()
        shared: dict[tuple[str, ...], float] = {}
        for words, weight in zip(self.words, weights, strict=True):
            for k in range(len(words) + 1):
                shared[words[:k]] = shared.get(words[:k], 0.0) + weight
        self._left = [[shared[words[:k]] for k in range(len(words) + 1)] for words in self.words]
        self.bits = [_surprisal(left) for left in self._left]
        self._dressed: dict[tuple[str, str], Table] = {}

    @property
    def tree(self) -> dict[str, tuple[str, Any]]:
        if self._tree is None:
            self._tree = self._grow()
        return self._tree

    def _grow(self) -> dict[str, tuple[str, Any]]:
        """A tree of words: word -> (the white space before it, what may follow, or the index of the
        alternative).
        """
        tree: dict[str, tuple[str, Any]] = {}
        for index, words in enumerate(self.words):
            node = tree
            for word in words[:-1]:
                space, below = node.setdefault(word.strip(), (word[0], {}))
                if isinstance(below, int) or space != word[0]:
                    raise ValueError(
                        f"ambiguous grammar: {self.items[index]!r} and another of {self.items!r}"
                    )
                node = below
            if words[-1].strip() in node:
                raise ValueError(f"ambiguous grammar: {self.items[index]!r} starts another of {self.items!r}")
            node[words[-1].strip()] = (words[-1][0], index)
        return tree

    def bits_without(self, index: int, excluded: Sequence[int]) -> tuple[float, ...]:
        """The bits of the words of an alternative where some others are out of the question."""
        words, left = self.words[index], list(self._left[index])
        for i in excluded:
            for k in range(len(words) + 1):
                if self.words[i][:k] == words[:k]:
                    left[k] -= self.weights[i]
        return _surprisal(left)

    def dressed(self, before: str, after: str) -> "Table":
        """The same table with punctuation around every alternative."""
        if not before and not after:
            return self
        if (before, after) not in self._dressed:
            table = copy.copy(self)
            table.items = tuple(before + item + after for item in self.items)
            table.words = [spaced(item) for item in table.items]
            table._tree = None
            self._dressed[before, after] = table
        return self._dressed[before, after]


def _surprisal(left: Sequence[float]) -> tuple[float, ...]:
    return tuple(max(0.0, math.log2(a / b)) for a, b in zip(left, left[1:], strict=False))


@lru_cache(maxsize=65536)
def _noisy(candidates: tuple[str, ...], truth: int, noise: float, skill: int) -> Table:
    weights = [noise / (len(candidates) - 1)] * len(candidates)
    weights[truth] = 1.0 - noise
    return Table(candidates, weights, skill)


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
        self._moments: list[tuple[int, int, int, Sequence[str], Container[str], str, str]] = []

    def say(self, table: Table, excluded: Sequence[int] = ()) -> int:
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
            index = self._recognise(Table(alternatives, (1.0,) * len(agreeing), skill), ())
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
        self._moments.append((start, stop, skill, candidates, allowed, before, after))

    def _recognise(self, table: Table, excluded: Container[int]) -> int:
        assert self._heard is not None
        node: Any = table.tree
        at = len(self.words)
        while at < len(self._heard) and isinstance(node, dict) and self._heard[at] in node:
            node = node[self._heard[at]][1]
            at += 1
        if isinstance(node, dict) or node in excluded:
            raise Unheard(at - (not isinstance(node, dict)))
        return node

    def finish(
        self, translate: Callable[[str], str] | None = None
    ) -> tuple[str, tuple[Word, ...], tuple[Choice, ...]]:
        """The text, its words and its forced choices, at most `MAX_CHOICES` a skill, spread over the text."""
        words = [translate(word) for word in self.words] if translate else self.words
        words[0] = words[0][1:]
        ends = list(accumulate(map(len, words)))
        by_skill: dict[int, list] = {}
        for moment in self._moments:
            by_skill.setdefault(moment[2], []).append(moment)
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
                        choices.append(Choice(ends[start - 1], skill, truth, other))
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
