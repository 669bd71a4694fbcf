"""Which words do the stories use? The lexicon of the generator in lab/data/stories.py."""

import functools
import hashlib
from dataclasses import dataclass


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def digest(*parts: str) -> bytes:
    return hashlib.sha256("/".join(parts).encode()).digest()


@functools.cache
def ranked(items: tuple[str, ...], key: str) -> tuple[str, ...]:
    """A fixed order of `items` that looks random and depends on `key` alone."""
    return tuple(sorted(items, key=lambda item: digest(key, item)))


def _names(endings: str, *, middles: str, ends: str) -> tuple[str, ...]:
    """Two syllables or three: short names first, since the rank is the frequency."""
    starts = _words("Be Da Fi Go Ha Jo Ka Lu Mi No Pe Ro Sa Ti Wu")
    short = tuple(start + ending for start in starts for ending in endings.split())
    long = tuple(start + m + e for start in starts for m in middles.split() for e in ends.split())
    return ranked(short, "names") + ranked(long, "names")


@dataclass(frozen=True)
class Lexicon:
    """The words of the grammar, most frequent first, and its limits. Cut down, all texts can be listed."""

    girls: tuple[str, ...] = _names(
        "la na ra ma mi vi li di ni za", middles="si ta le she", ends="na ssa lle mi ta ya"
    )
    boys: tuple[str, ...] = _names(
        "bo do ko lo mo no ro to ve ge", middles="ba de ki gu", ends="ro n x ld ck rt"
    )
    openings: tuple[str, ...] = (
        "Once upon a time, there was",
        "Long ago, there lived",
        "In a quiet village, there lived",
        "Not far from here, there was",
    )
    traits: tuple[str, ...] = _words("kind brave shy eager lazy clever proud patient")
    houses: tuple[str, ...] = _words("little white old tall crooked blue wooden empty")
    relatives: tuple[str, ...] = _words("grandmother brother mother uncle sister father aunt cousin")
    weather: tuple[str, ...] = _words("sunny cold windy warm foggy quiet rainy")
    home_places: tuple[str, ...] = (
        "by the sea", "near the woods", "at the end of the road", "on a farm", "beside a stream",
        "across from the park",
    )  # fmt: skip
    times: tuple[str, ...] = _words("morning day afternoon evening")
    nouns: tuple[str, ...] = _words(
        "ball kite key book drum shell boat bell lamp coin ring doll hat stone box feather whistle basket"
        " mirror spoon button ladder blanket puzzle ribbon candle bucket map pencil marble"
    )
    adjectives: tuple[str, ...] = _words(
        "red small shiny old round golden broken heavy green tiny striped soft silver long yellow pretty"
        " strange orange"
    )
    places: tuple[str, ...] = (
        "in the garden", "near the river", "in the forest", "on the hill", "behind the barn",
        "at the market", "in the kitchen", "under the bridge", "on the beach", "beside the lake",
        "in the attic", "near the school", "inside the cave", "on the farm", "by the mill", "at the harbor",
    )  # fmt: skip
    animals: tuple[str, ...] = _words(
        "cat dog fox bear rabbit duck mouse owl goat frog hedgehog pony sheep otter crow"
    )
    joys: tuple[str, ...] = _words("smiled jumped danced laughed sang cheered clapped")
    moods: tuple[str, ...] = _words("sad worried tired angry sorry upset")
    games: tuple[str, ...] = (
        "played tag", "sang a song", "told jokes", "built a tower", "ran races", "shared some nuts",
        "flew paper planes",
    )  # fmt: skip
    ends: tuple[str, ...] = ("lunch", "the sun went down", "it was dark", "everyone was hungry")
    covers: tuple[str, ...] = _words("coat scarf cloak umbrella apron")
    foods: tuple[str, ...] = _words(
        "soup bread cake rice honey cheese porridge apples noodles pancakes plums beans eggs corn jam pears"
    )
    morals: tuple[str, ...] = (
        "share", "take good care of things", "ask for help", "never give up", "be gentle", "tell the truth",
        "listen to others", "wait for a turn", "try new ways", "think before acting",
    )  # fmt: skip
    closings: tuple[str, ...] = ("At the end of the day,", "When the moon came up,", "Before bedtime,")
    max_friends: int = 3
    min_events: int = 6
    max_events: int = 9


LEXICON = Lexicon()
