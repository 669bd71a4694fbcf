"""Which text has an exactly known entropy? Short stories drawn from a grammar that knows P(text).

The grammar tests nine skills, each over its own distance, and says for every word which one. -log2 P(text)
is the sum of the bits of its words, at every word boundary (lab/data/stories/telling.py). The texts are
ASCII: a position counts characters and bytes alike.
"""

import dataclasses
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

from lab.config.schema import Grammar
from lab.data.stories.language import Language, languages_of
from lab.data.stories.lexicon import digest
from lab.data.stories.plot import Plot
from lab.data.stories.telling import SKILLS, Pick, StatedChoice, Telling, Unheard, Word, random_pick
from lab.data.stories.world import World, world_of

__all__ = [
    "RECIPE_VERSION",
    "SKILLS",
    "StatedChoice",
    "Story",
    "Word",
    "generate",
    "parse",
    "recipe_fingerprint",
    "tell",
]

RECIPE_VERSION = 2
"""Raised whenever a story changes: old runs then stay what they were."""


@dataclass(frozen=True)
class Story:
    """A text, what its words cost and test, and the forced choices that can be asked in it."""

    text: str
    words: tuple[Word, ...]
    choices: tuple[StatedChoice, ...]


def _finish(world: World, telling: Telling, language: Language | None) -> Story:
    telling.bits[0] += math.log2(world.grammar.languages)
    return Story(*telling.finish(language.translate if language else None))


def tell(pick: Pick, world: World) -> Story:
    """Tells one story. `pick` decides: a random one samples, a systematic one enumerates all stories."""
    count = world.grammar.languages
    language = languages_of(world)[pick(range(1, count + 1), ())] if count > 1 else None
    telling = Telling(pick, world.grammar.noise)
    Plot(world, telling).tell()
    return _finish(world, telling, language)


def generate(grammar: Grammar, *, seed: int, split: str, count: int, first: int = 0) -> Iterator[Story]:
    """Stories `first` ... `first + count - 1` of a split. A story depends on (grammar, seed, split,
    number) alone.
    """
    world = world_of(grammar)
    for number in range(first, first + count):
        yield tell(random_pick(f"{seed}/{split}/{number}"), world)


def parse(text: str, grammar: Grammar) -> Story:
    """The same story back from its text alone. ValueError names the byte where it leaves the grammar."""
    return retell(text, world_of(grammar))


def retell(text: str, world: World) -> Story:
    """The same for a world that is at hand, which may be cut down."""
    heard = text.split()
    language = None
    if world.grammar.languages > 1 and heard:
        language = next(
            (made_up for made_up in languages_of(world) if made_up and made_up.knows(heard[0])), None
        )
        if language:
            heard = [language.back(word) for word in heard]
    telling = Telling(lambda weights, excluded: 0, world.grammar.noise, heard)
    try:
        Plot(world, telling).tell()
    except Unheard as stop:
        told, byte = telling.words, None
        wrong = next(
            (i for i, (a, b) in enumerate(zip(told, heard, strict=False)) if a.strip() != b), stop.args[0]
        )
    else:
        story = _finish(world, telling, language)
        if story.text == text:
            return story
        same = next((i for i, (a, b) in enumerate(zip(story.text, text, strict=False)) if a != b), None)
        byte = min(len(story.text), len(text)) if same is None else same
    if byte is None:
        position = 0
        for word in text.split()[:wrong]:
            position = text.index(word, position) + len(word)
        byte = position
    raise ValueError(f"the text leaves the grammar at byte {byte}: {text[byte : byte + 40]!r}")


def recipe_fingerprint(grammar: Grammar, *, seed: int, stories: int, validation_stories: int) -> str:
    """SHA-256 of all that the texts depend on: the recipe's version and its parameters."""
    knobs = json.dumps(dataclasses.asdict(grammar), sort_keys=True)
    return digest(str(RECIPE_VERSION), knobs, str(seed), str(stories), str(validation_stories)).hex()
