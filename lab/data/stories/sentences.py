"""Which sentences tell a story? Templates, read from sentences.json and facts.json beside this module.

A template holds literal words, `[one|of|several]`, and `{slots}` that lab/data/stories/slots.py fills. A
form has heads and a body: each head is recognised by its own words, so the first words of a sentence say
which event it tells. A head that begins with a newline begins a paragraph.
"""

import json
from dataclasses import dataclass

from lab.config.strict import read
from lab.data.stories.lexicon import FACTS, FOLDER


@dataclass(frozen=True)
class Form:
    """Heads, and the body that follows any of them."""

    heads: tuple[str, ...]
    body: str


@dataclass(frozen=True)
class Event:
    """A kind of sentence: how likely, in which state of the story it can be told, and its forms.

    needs: one of the states that `Plot.menu` finds, "" for any. An event without forms of its own tells
    scenery.
    """

    name: str
    weight: float
    needs: str
    forms: tuple[Form, ...]


@dataclass(frozen=True)
class Sentences:
    """All templates. Cut down, all texts of the grammar can be listed.

    town_facts, person_facts: the name of each attribute and the sentence that tells it. The order of the
    fields is part of the recipe: made-up languages draw their words in it.
    """

    opening: Form
    home: Form
    town_facts: tuple[tuple[str, str], ...]
    person_facts: tuple[tuple[str, str], ...]
    find: Form
    scenery: tuple[Form, ...]
    events: tuple[Event, ...]
    ending: Form
    moral: tuple[Form, ...]


def read_sentences() -> Sentences:
    """All templates from their files. ConfigError for a key that is missing, unknown or mistyped."""
    path = FOLDER / "sentences.json"
    told_facts = {
        "town_facts": [(attribute.name, attribute.sentence) for attribute in FACTS.town],
        "person_facts": [(attribute.name, attribute.sentence) for attribute in FACTS.person],
    }
    return read(Sentences, json.loads(path.read_text(encoding="ascii")) | told_facts, source=path.name)


SENTENCES = read_sentences()
