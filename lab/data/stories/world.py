"""What do all stories of a grammar share? Decision tables, compiled sentences and the table of facts."""

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import NamedTuple, TypeVar

from lab.config.grammar import misfit_knobs
from lab.config.schema import Grammar
from lab.config.strict import ConfigError
from lab.data.stories.decision_table import DecisionTable, zipf
from lab.data.stories.lexicon import LEXICON, Lexicon, digest, plural, ranked, with_article
from lab.data.stories.sentences import SENTENCES, Event, Form, Sentences
from lab.data.stories.telling import COLLOCATION, LEXICAL, SYNTAX
from lab.data.stories.template import DescribedNouns, Step, compile_template

OWN = 10
"""Adjectives that each noun has of its own; of verbs it has some more."""

THING_LISTS = ("toys", "tools", "treasures")
"""Two things of a story never share a noun: each comes from a list of its own."""

MORE_WORDS = (
    "she her he him his girl boy they them their it is i have here you yourself has still had carried wore"
).split()
"""Words that only lab/data/stories/slots.py says."""


Item = TypeVar("Item")
"""Of a word list: a word, a phrase, or a noun with its plural."""


class Forms(NamedTuple):
    """Sentences that can follow: the table of their heads, and per head what comes then."""

    table: DecisionTable
    bodies: tuple[tuple[str, tuple[Step, ...]], ...]


class World:
    """All that is fixed before a story begins. ConfigError for knobs with which no story can be told."""

    def __init__(self, grammar: Grammar, lexicon: Lexicon, sentences: Sentences) -> None:
        if problems := misfit_knobs(grammar):
            raise ConfigError(problems)
        self.grammar = grammar
        self.lexicon = lexicon
        self.sentences = sentences
        self._facts: dict[tuple[str, str], str] = {}
        self._menus: dict[tuple[tuple[bool, ...], float], Forms] = {}
        self._compiled: dict[str, tuple[Step, ...]] = {}
        self._name_people()
        self._make_tables()
        self._compile_sentences()

    def cut(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """The frequent share of a word list."""
        return items[: max(2, round(self.grammar.words * len(items)))]

    def weights(self, count: int) -> tuple[float, ...]:
        """How likely the words of a list of that length are, by rank."""
        return zipf(count, self.grammar.zipf_exponent)

    def _plain(self, items: tuple[str, ...], skill: int = LEXICAL) -> DecisionTable:
        items = self.cut(items)
        return DecisionTable(items, self.weights(len(items)), skill)

    def _name_people(self) -> None:
        """Four fifths of the facts are about people, the rest about towns."""
        lexicon, grammar = self.lexicon, self.grammar
        people = max(grammar.friends + 2, round(0.8 * grammar.facts / len(lexicon.person_facts)))
        towns = max(1, round(0.2 * grammar.facts / len(lexicon.town_facts)))
        girls, boys = lexicon.girls[: people - people // 2], lexicon.boys[: people // 2]
        if len(girls) + len(boys) < people or len(lexicon.towns) < towns:
            most = min(
                (len(lexicon.girls) + len(lexicon.boys)) * len(lexicon.person_facts) / 0.8,
                len(lexicon.towns) * len(lexicon.town_facts) / 0.2,
            )
            raise ConfigError(
                f"data.grammar.facts = {grammar.facts}: there are names for {int(most)} facts. "
                "Ask for no more."
            )
        both = [name for pair in zip(girls, boys, strict=False) for name in pair] + list(girls[len(boys) :])
        self.gender = {**dict.fromkeys(girls, "girl"), **dict.fromkeys(boys, "boy")}
        self.names = DecisionTable(both, self.weights(len(both)), LEXICAL)
        self.girls = DecisionTable(girls, self.weights(len(girls)), LEXICAL)
        self.boys = DecisionTable(boys, self.weights(len(boys)), LEXICAL)
        self.towns = DecisionTable(lexicon.towns[:towns], self.weights(towns), LEXICAL)
        self.name_index = {name: i for i, name in enumerate(both)}

    def _make_tables(self) -> None:
        lexicon = self.lexicon
        self.places = self._plain(lexicon.places)
        self.chases = self._plain(lexicon.chases)
        self.feelings = self._plain(lexicon.feelings)
        self.lists = {
            "weather": self._plain(lexicon.weathers),
            "time": self._plain(lexicon.times),
            "relative": self._plain(lexicon.relatives),
            "often": self._plain(lexicon.adverbs),
            "character": self._plain(lexicon.people_adjectives),
            "ripe": self._plain(lexicon.ripe),
            "place": self.places,
            "sky": self._plain(lexicon.skies),
            "smell": self._plain(lexicon.smells),
            "heard": self._plain(lexicon.things_heard),
            "manner": self._plain(lexicon.manners),
            "feeling": self.feelings,
            "joy": self._plain(lexicon.joys),
            "speech": self._plain(lexicon.speech),
            "chase": self.chases,
        }
        self.traits = self._plain(with_article(lexicon.traits))
        self.go_on = [DecisionTable((verb, "that"), (0.6, 0.4), SYNTAX) for verb in ("was", "were")]
        self.rival_adjectives = (self.cut(lexicon.looks), self.cut(lexicon.materials))
        self.strange = self.cut(lexicon.people)
        self.hideouts = self._plain(lexicon.hideouts)
        self.where = self.places.items + self.hideouts.items
        self.numbers = lexicon.numbers
        self.counted = self.cut(lexicon.counted)
        self.counted_table = DecisionTable(
            [many for _, many in self.counted], self.weights(len(self.counted)), LEXICAL
        )
        self.morals = lexicon.morals
        looks, materials = lexicon.looks, lexicon.materials
        animals = self._describe(lexicon.animals, lexicon.animal_adjectives)
        self.described = {
            "animal": animals,
            "plant": self._describe(lexicon.plants, lexicon.plant_adjectives),
            "person": self._describe(lexicon.people, lexicon.people_adjectives),
            "cloth": self._describe(lexicon.clothes, lexicon.fabrics),
            "home": self._describe(lexicon.homes, lexicon.home_adjectives),
        }
        self.things = [self._describe(getattr(lexicon, name), looks, materials) for name in THING_LISTS]
        self.own_verbs = {
            animal: self._plain(ranked(lexicon.animal_verbs, animal)[: OWN + 2], COLLOCATION)
            for animal in animals.nouns
        }
        deeds: dict[str, list[str]] = {}
        for verb, thing in (deed.split(" ", 1) for deed in lexicon.deeds):
            deeds.setdefault(verb, []).append(thing)
        self.deeds = {verb: frozenset(things) for verb, things in deeds.items()}
        self.deed_objects = tuple(sorted({thing for things in deeds.values() for thing in things}))
        verbs = self.cut(tuple(deeds))
        pairs = [
            (f"{verb} {thing}", weight * own / sum(self.weights(len(self.cut(tuple(deeds[verb]))))))
            for verb, weight in zip(verbs, self.weights(len(verbs)), strict=True)
            for thing, own in zip(self.cut(tuple(deeds[verb])), self.weights(len(deeds[verb])), strict=False)
        ]
        self.deed_table = DecisionTable(
            [pair for pair, _ in pairs], [w for _, w in pairs], LEXICAL, COLLOCATION
        )
        creatures = self.cut(lexicon.people)
        beasts = self.cut(lexicon.animals)
        self.creatures, self.beasts = (
            DecisionTable(
                [form for noun in nouns for form in (noun, plural(noun))],
                [weight for weight in self.weights(len(nouns)) for _ in range(2)],
                LEXICAL,
            )
            for nouns in (creatures, beasts)
        )

    def _describe(self, nouns: tuple[str, ...], *adjectives: tuple[str, ...]) -> DescribedNouns:
        """Each noun has its own adjectives of each sort, most frequent first."""
        nouns = self.cut(nouns)
        phrases, weights = [], []
        fitting: dict[tuple[str, ...], set[str]] = {}
        for noun, noun_weight in zip(nouns, self.weights(len(nouns)), strict=True):
            described: list[tuple[tuple[str, ...], float]] = [((), noun_weight)]
            for sort in adjectives:
                own = ranked(self.cut(sort), noun)[:OWN]
                total = sum(self.weights(len(own)))
                described = [
                    ((*before, adjective), weight * own_weight / total)
                    for before, weight in described
                    for adjective, own_weight in zip(own, self.weights(len(own)), strict=True)
                ]
            for before, weight in described:
                phrases.append(" ".join((*before, noun)))
                weights.append(weight)
                fitting.setdefault(before, set()).add(noun)
        skills = (LEXICAL, LEXICAL, *(COLLOCATION,) * len(adjectives))
        table = DecisionTable(with_article(phrases), weights, *skills)
        return DescribedNouns(table, nouns, {key: frozenset(value) for key, value in fitting.items()})

    def fact(self, key: str, attribute: str, values: tuple[str, ...]) -> str:
        """The table of facts: the same in all stories, whatever their seed."""
        if (key, attribute) not in self._facts:
            number = int.from_bytes(digest("fact", key, attribute)[:8], "big")
            self._facts[key, attribute] = values[number % len(values)]
        return self._facts[key, attribute]

    def rival_names(self, name: str) -> tuple[str, ...]:
        return tuple(other for other in self.names.items[:8] if other != name)

    def moral_of(self, trait: str, outcome: str) -> str:
        """Per outcome, the traits share out the morals."""
        morals = ranked(self.lexicon.morals, outcome)
        return morals[self.lexicon.traits.index(trait) % len(morals)]

    def vocabulary(self) -> tuple[str, ...]:
        """All words, lower case: those of the templates first, since they are the most frequent."""
        lexicon = replace(self.lexicon, girls=(), boys=(), towns=())
        texts = [*_strings(self.sentences), *_strings(lexicon), *self.names.items, *self.towns.items]
        words = [word for text in texts for word in re.sub(r"\{[^}]*\}|[\[\]|]", " ", text).split()]
        nouns = (*self.lexicon.people, *self.lexicon.animals)
        words += [*map(plural, nouns), "that", "were", "was", "who", "a", "an", "the", *MORE_WORDS]
        return tuple(word for word in dict.fromkeys(word.strip('".,!?:').lower() for word in words) if word)

    def _compile_sentences(self) -> None:
        sentences, lexicon = self.sentences, self.lexicon
        self.values = {
            name: self.cut(getattr(lexicon, field))
            for name, field in (*lexicon.person_facts, *lexicon.town_facts)
        }
        self.values_with_article = {name: with_article(values) for name, values in self.values.items()}
        self.town_attributes = {name for name, _ in lexicon.town_facts}
        self.opening = self.forms([("", sentences.opening)])
        self.home = self.forms([("", sentences.home)])
        self.find = self.forms([("", sentences.find)])
        self.ending = self.forms([("", sentences.ending)])
        self.scenery = self.forms([("", form) for form in sentences.scenery])
        self.moral = self.forms([("", form) for form in sentences.moral])
        self.person_facts, self.town_facts = (
            self.forms(
                [("", self._headed(name, template)) for name, template in frames if name in self.values]
            )
            for frames in (sentences.person_facts, sentences.town_facts)
        )
        self.events = [
            event if event.forms else replace(event, forms=sentences.scenery) for event in sentences.events
        ]

    def _headed(self, name: str, template: str) -> Form:
        """Split before the first slot; the fact that the frame tells is named in its slot."""
        at = template.index("{")
        return Form((template[:at].strip(),), template[at:].replace("fact}", f"fact:{name}}}"))

    def forms(self, named: list[tuple[str, Form]], weights: Sequence[float] | None = None) -> Forms:
        """The table of all heads of all forms. A form's weight is spread over its heads."""
        heads, head_weights, bodies = [], [], []
        weights = weights or self.weights(len(named))
        for (name, form), weight in zip(named, weights, strict=True):
            shares = self.weights(len(form.heads))
            total = sum(shares)
            steps = self.compile(form.body)
            for head, head_weight in zip(form.heads, shares, strict=True):
                heads.append(head)
                head_weights.append(weight * head_weight / total)
                bodies.append((name, steps))
        return Forms(DecisionTable(heads, head_weights, SYNTAX), tuple(bodies))

    def menu(self, legal: tuple[bool, ...], end: float) -> Forms:
        """The events that the state allows; with probability `end` the story ends instead."""
        key = legal, end
        if key not in self._menus:
            named, weights = [], []
            for event, possible in zip(self.events, legal, strict=True):
                if possible and end < 1.0:
                    for form in event.forms:
                        named.append((event.name, form))
                        weights.append(event.weight / len(event.forms))
            if end:
                named.append(("end", self.sentences.ending))
                weights.append(end / (1.0 - end) * sum(weights) if end < 1.0 else 1.0)
            self._menus[key] = self.forms(named, weights)
        return self._menus[key]

    def compile(self, template: str) -> tuple[Step, ...]:
        """The template as steps."""
        if template not in self._compiled:
            self._compiled[template] = compile_template(
                template, lists=self.lists, described=self.described, weights=self.weights
            )
        return self._compiled[template]


def _strings(value: object) -> list[str]:
    """All strings inside a record of the lexicon or the sentences, field by field."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, tuple):
        return [text for item in value for text in _strings(item)]
    if isinstance(value, Event | Form | Lexicon | Sentences):
        return [text for field in fields(value) for text in _strings(getattr(value, field.name))]
    return []


@lru_cache(maxsize=16)
def world_of(grammar: Grammar, lexicon: Lexicon = LEXICON, sentences: Sentences = SENTENCES) -> World:
    """The world of a grammar, made once. Raises ConfigError for knobs with which no story can be told."""
    return World(grammar, lexicon, sentences)
