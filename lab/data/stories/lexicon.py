"""Which words do the stories use, and how do they bend? Word lists, most frequent first, read from the text
files beside this module.

words.txt holds the classes of words, names.txt the names and the syllables of made-up ones, deeds.txt the
verbs with their objects, facts.json what can be known of a person or a town.
"""

import functools
import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.config.strict import read

FOLDER = Path(__file__).parent


def digest(*parts: str) -> bytes:
    """SHA-256 of the parts: the source of every choice that is the same in all stories."""
    return hashlib.sha256("/".join(parts).encode()).digest()


@functools.cache
def ranked(items: tuple[str, ...], key: str) -> tuple[str, ...]:
    """A fixed order of `items` that looks random and depends on `key` alone."""
    return tuple(sorted(items, key=lambda item: digest(key, item)))


# --- How a word changes with its neighbors ---


def with_article(phrases: Sequence[str]) -> tuple[str, ...]:
    """Each phrase after "a" or "an"."""
    return tuple(f"{article(phrase)} {phrase}" for phrase in phrases)


def article(phrase: str) -> str:
    """ "a" or "an", by the sound that the phrase begins with."""
    vowel = phrase[0] in "aeiou" and not phrase.startswith(("uni", "one", "use", "eu"))
    return "an" if vowel or phrase.startswith("honest") else "a"


def plural(noun: str) -> str:
    """The plural of an English noun of words.txt."""
    if noun == "sheep":
        return noun
    if noun.endswith("man"):
        return noun[:-2] + "en"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    if noun.endswith(("s", "x", "ch", "sh")) or noun in ("buffalo", "potato", "tomato"):
        return noun + "es"
    return noun + "s"


# --- Reading the lists ---


def read_lists(path: Path) -> dict[str, tuple[str, ...]]:
    """The lists of a file by name: `name: item, item`, continued on lines that begin with white space."""
    lists: dict[str, tuple[str, ...]] = {}
    name = ""
    for line in path.read_text(encoding="ascii").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if not line[0].isspace():
            name, _, line = line.partition(":")
            lists[name] = ()
        lists[name] += tuple(item.strip() for item in line.split(",") if item.strip())
    return lists


def _joined(*parts: Sequence[str]) -> tuple[str, ...]:
    """All words of these parts, in an order that looks random."""
    return ranked(tuple("".join(word) for word in itertools.product(*parts)), "names")


@dataclass(frozen=True)
class NameParts:
    """What names.txt holds: real names of girls and boys, and the syllables of made-up names."""

    child_starts: tuple[str, ...]
    girls: tuple[str, ...]
    girl_ends: tuple[str, ...]
    girl_middles: tuple[str, ...]
    girl_long_ends: tuple[str, ...]
    boys: tuple[str, ...]
    boy_ends: tuple[str, ...]
    boy_middles: tuple[str, ...]
    boy_long_ends: tuple[str, ...]
    town_starts: tuple[str, ...]
    town_ends: tuple[str, ...]

    def names_of_girls(self) -> tuple[str, ...]:
        """Real names, then made-up ones of two, three and four syllables: the rank is the frequency."""
        return self._children(self.girls, self.girl_ends, self.girl_middles, self.girl_long_ends)

    def names_of_boys(self) -> tuple[str, ...]:
        """As those of girls."""
        return self._children(self.boys, self.boy_ends, self.boy_middles, self.boy_long_ends)

    def _children(
        self, real: Sequence[str], ends: Sequence[str], middles: Sequence[str], long_ends: Sequence[str]
    ) -> tuple[str, ...]:
        short = _joined(self.child_starts, ends)
        long = _joined(self.child_starts, middles, long_ends)
        longer = _joined(self.child_starts, middles, middles, long_ends)
        return tuple(dict.fromkeys((*real, *short, *long, *longer)))

    def names_of_towns(self) -> tuple[str, ...]:
        """Made-up ones of two parts, then of three."""
        middles = tuple(start.lower() for start in self.town_starts)
        short = _joined(self.town_starts, self.town_ends)
        return (*short, *_joined(self.town_starts, middles, self.town_ends))


@dataclass(frozen=True)
class Attribute:
    """What can be known of every person or every town: its name, the field of the Lexicon that holds its
    values, and the sentence that tells it, with `{fact}` for the value.
    """

    name: str
    words: str
    sentence: str


@dataclass(frozen=True)
class Facts:
    """The attributes of people and of towns, those that are told most often first."""

    person: tuple[Attribute, ...]
    town: tuple[Attribute, ...]


FACTS = read(Facts, json.loads((FOLDER / "facts.json").read_text(encoding="ascii")), source="facts.json")


@dataclass(frozen=True)
class Lexicon:
    """Word lists by class. Cut down, all texts of the grammar can be listed.

    counted: what is counted, as (one, many). deeds: a verb and its object. person_facts, town_facts: the
    name of each attribute and the field here that holds its values. The order of the fields is part of the
    recipe: made-up languages draw their words in it.
    """

    girls: tuple[str, ...]
    boys: tuple[str, ...]
    towns: tuple[str, ...]
    traits: tuple[str, ...]
    relatives: tuple[str, ...]
    homes: tuple[str, ...]
    home_adjectives: tuple[str, ...]
    weathers: tuple[str, ...]
    times: tuple[str, ...]
    places: tuple[str, ...]
    hideouts: tuple[str, ...]
    toys: tuple[str, ...]
    tools: tuple[str, ...]
    treasures: tuple[str, ...]
    looks: tuple[str, ...]
    materials: tuple[str, ...]
    animals: tuple[str, ...]
    animal_adjectives: tuple[str, ...]
    animal_verbs: tuple[str, ...]
    chases: tuple[str, ...]
    people: tuple[str, ...]
    people_adjectives: tuple[str, ...]
    feelings: tuple[str, ...]
    joys: tuple[str, ...]
    speech: tuple[str, ...]
    skies: tuple[str, ...]
    manners: tuple[str, ...]
    adverbs: tuple[str, ...]
    things_heard: tuple[str, ...]
    smells: tuple[str, ...]
    plants: tuple[str, ...]
    plant_adjectives: tuple[str, ...]
    foods: tuple[str, ...]
    fruits: tuple[str, ...]
    drinks: tuple[str, ...]
    colors: tuple[str, ...]
    games: tuple[str, ...]
    instruments: tuple[str, ...]
    jobs: tuple[str, ...]
    months: tuple[str, ...]
    seasons: tuple[str, ...]
    days: tuple[str, ...]
    subjects: tuple[str, ...]
    flowers: tuple[str, ...]
    dreams: tuple[str, ...]
    clothes: tuple[str, ...]
    fabrics: tuple[str, ...]
    counted: tuple[tuple[str, str], ...]
    ripe: tuple[str, ...]
    numbers: tuple[str, ...]
    deeds: tuple[str, ...]
    morals: tuple[str, ...]
    person_facts: tuple[tuple[str, str], ...]
    town_facts: tuple[tuple[str, str], ...]


def read_lexicon() -> Lexicon:
    """The whole lexicon from its files. TypeError for a list that is missing or that no class asks for."""
    words = read_lists(FOLDER / "words.txt")
    names = read(NameParts, read_lists(FOLDER / "names.txt"), source="names.txt")
    deeds = read_lists(FOLDER / "deeds.txt")
    counted = tuple((noun, plural(noun)) for noun in words.pop("counted"))
    return Lexicon(
        **words,
        girls=names.names_of_girls(),
        boys=names.names_of_boys(),
        towns=names.names_of_towns(),
        counted=counted,
        deeds=tuple(f"{verb} {thing}" for verb, things in deeds.items() for thing in things),
        person_facts=tuple((attribute.name, attribute.words) for attribute in FACTS.person),
        town_facts=tuple((attribute.name, attribute.words) for attribute in FACTS.town),
    )


LEXICON = read_lexicon()
