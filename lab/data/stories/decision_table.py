"""What can come next, how likely is it, and what does each of its words cost? The table of one decision.

Its alternatives are sequences of whole words, none the start of another, so that a text has one sequence of
decisions (Cover & Thomas 2006, section 5.1: prefix codes are uniquely decodable). Units: bits. Words carry
the white space before them and the punctuation around them.
"""

import copy
import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

Branches = dict[str, tuple[str, "Branches | int"]]
"""A tree of words: word -> (the white space before it, what may follow, or the index of the alternative)."""


@lru_cache(maxsize=65536)
def spaced(text: str) -> tuple[str, ...]:
    """The words with the white space before them: a leading newline begins a paragraph."""
    first, *rest = text.split()
    return (("\n" if text[0] == "\n" else " ") + first, *[" " + word for word in rest])


def zipf(count: int, exponent: float) -> tuple[float, ...]:
    """Zipf-Mandelbrot weights of the ranks 0 ... count - 1 (Mandelbrot 1953)."""
    return tuple((rank + 2.7) ** -exponent for rank in range(count))


class DecisionTable:
    """The alternatives of a decision with their weights, and what each word of each costs and tests.

    skills: of the first word, the second, ...; the last one counts for all further words. ValueError where
    one alternative starts another.
    """

    def __init__(self, items: Sequence[str], weights: Sequence[float], *skills: int) -> None:
        self.items = tuple(items)
        self.known = frozenset(items)
        self.weights = tuple(weights)
        self.words = [spaced(item) for item in items]
        self.skills = [(skills + skills[-1:] * len(words))[: len(words)] for words in self.words]
        self.cumulative = tuple(accumulate(weights))
        self._tree: Branches | None = self._grow()
        shared: dict[tuple[str, ...], float] = {}
        for words, weight in zip(self.words, weights, strict=True):
            for k in range(len(words) + 1):
                shared[words[:k]] = shared.get(words[:k], 0.0) + weight
        self._left = [[shared[words[:k]] for k in range(len(words) + 1)] for words in self.words]
        self.bits = [_surprisal(left) for left in self._left]
        self._dressed: dict[tuple[str, str], DecisionTable] = {}

    @property
    def tree(self) -> Branches:
        """All alternatives, word by word. Grown when it is first needed: only reading a text needs it."""
        if self._tree is None:
            self._tree = self._grow()
        return self._tree

    def _grow(self) -> Branches:
        tree: Branches = {}
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

    def dressed(self, before: str, after: str) -> "DecisionTable":
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
