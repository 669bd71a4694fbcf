"""How does a story sound in another language? The same grammar with a made-up word for every English one."""

import itertools
import random
import re
from collections.abc import Iterator
from functools import lru_cache

from lab.data.stories.lexicon import ranked
from lab.data.stories.world import World

_WORD = re.compile(r"""(\s*[".,!?:]*)([^".,!?:\s]+)(.*)""", re.DOTALL)


class Language:
    """A one-to-one map of English words to words of the language's own syllables; capitals and punctuation
    stay.
    """

    def __init__(self, words: dict[str, str]) -> None:
        self._words = words
        self._english = {made: word for word, made in words.items()}
        self._cache: dict[str, str] = {}

    def translate(self, word: str) -> str:
        if word not in self._cache:
            self._cache[word] = _swap(word, self._words)
        return self._cache[word]

    def back(self, word: str) -> str:
        """The English word; a word that the language lacks stays as it is."""
        return _swap(word, self._english)

    def knows(self, word: str) -> bool:
        match = _WORD.fullmatch(word)
        return match is not None and match[2].lower() in self._english


def _swap(word: str, words: dict[str, str]) -> str:
    match = _WORD.fullmatch(word)
    if not match:
        return word
    before, core, after = match.groups()
    other = words.get(core.lower())
    if other is None:
        return word
    return before + (other.capitalize() if core[0].isupper() else other) + after


def _syllables(number: int) -> list[str]:
    draw = random.Random(f"language {number}")
    onsets = draw.sample("b d f g h k l m n p r s t v z sh ch br tr kl gr st".split(), 9)
    return [onset + vowel for onset in onsets for vowel in draw.sample("aeiou", 3)]


def _made_up(number: int) -> Iterator[str]:
    """Short words first; one of a length as likely as another to stand for any English word."""
    syllables = _syllables(number)
    for length in itertools.count(2):
        words = tuple("".join(parts) for parts in itertools.product(syllables, repeat=length))
        yield from ranked(words, f"language {number}")


@lru_cache(maxsize=4)
def languages_of(world: World) -> tuple[Language | None, ...]:
    """English, then the made-up ones; no word belongs to two of them."""
    vocabulary = world.vocabulary()
    taken = set(vocabulary)
    languages: list[Language | None] = [None]
    for number in range(1, world.grammar.languages):
        fresh = (word for word in _made_up(number) if word not in taken)
        words = dict(zip(vocabulary, fresh, strict=False))
        taken |= set(words.values())
        languages.append(Language(words))
    return tuple(languages)
