"""Which text has an exactly known entropy? Short stories drawn from a grammar that knows P(text).

Every random decision is one call of `_Telling.say`: it picks one of several strings, none of which starts
with another, and nothing else is decided before the picked string is out. So a text has one sequence of
decisions (Cover & Thomas 2006, section 5.1: prefix codes are uniquely decodable), and -log2 P(text) is the
sum of their bits. The bits of a decision are spread over the words of the picked string such that

    sum of the bits up to the end of a word  =  -log2 P(a story starts with these bytes)

holds at the end of every word: the floor is exact for whole stories and for stories cut after any word.
Units: bits. The texts are ASCII, so a position counts characters and bytes alike.
"""

import functools
import hashlib
import math
import random
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from lab.data import lexicon as words
from lab.data.lexicon import LEXICON, Lexicon, digest, ranked

RECIPE_VERSION = 1

Pick = Callable[[Sequence[float]], int]
"""Chooses an index, given the unnormalised weights of the alternatives."""


@dataclass(frozen=True)
class Story:
    """A text, and per word `(end_byte, bits)`; the bits sum to -log2 P(text)."""

    text: str
    pieces: tuple[tuple[int, float], ...]


@functools.cache
def _zipf(count: int) -> tuple[float, ...]:
    """Zipf-Mandelbrot weights of the ranks 0 ... count - 1 (Mandelbrot 1953)."""
    return tuple((rank + 2.7) ** -1.1 for rank in range(count))


@functools.cache
def _after_space(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f" {word}" for word in words)


@functools.cache
def _after_article(phrases: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f" an {phrase}" if phrase[0] in "aeiou" else f" a {phrase}" for phrase in phrases)


def _word_ends(text: str) -> list[int]:
    return [match.end() for match in re.finditer(r"\S+", text)]


@functools.lru_cache(maxsize=8192)
def _narrowing(alternatives: tuple[str, ...], index: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """The words of `alternatives[index]` that rule others out: (end of word, who has the same bytes so far).

    Raises ValueError if another alternative starts with this one: a text could be told in two ways.
    """
    chosen = alternatives[index]
    steps = []
    agreeing = tuple(range(len(alternatives)))
    for end in _word_ends(chosen):
        narrower = tuple(i for i in agreeing if alternatives[i].startswith(chosen[:end]))
        if len(narrower) < len(agreeing):
            steps.append((end, narrower))
        agreeing = narrower
        if len(agreeing) == 1:
            return tuple(steps)
    raise ValueError(f"ambiguous grammar: {chosen!r} starts another of {alternatives!r}")


class _Telling:
    """The text told so far, and what its words have cost."""

    def __init__(self, pick: Pick) -> None:
        self._pick = pick
        self._text = ""
        self._costs: list[tuple[int, float]] = []

    def say(self, alternatives: tuple[str, ...], weights: Sequence[float] | None = None) -> int:
        """Picks an alternative, appends it and returns its index. Zipf weights unless others are given."""
        weights = weights or _zipf(len(alternatives))
        index = self._pick(weights)
        weight = sum(weights)
        for end, agreeing in _narrowing(alternatives, index):
            narrower_weight = sum([weights[i] for i in agreeing])
            self._costs.append((len(self._text) + end, math.log2(weight / narrower_weight)))
            weight = narrower_weight
        self._text += alternatives[index]
        return index

    def say_forced(self, text: str) -> None:
        """Says what the story so far decides: no bits."""
        self._text += text

    def say_word(self, words: tuple[str, ...], weights: Sequence[float] | None = None) -> str:
        """Says one of the words or phrases after a space, and returns it."""
        return words[self.say(_after_space(words), weights)]

    def say_described(self, words: tuple[str, ...], weights: Sequence[float] | None = None) -> str:
        """Says one of the words or phrases after "a" or "an", and returns it."""
        return words[self.say(_after_article(words), weights)]

    def finish(self) -> Story:
        """The story in pieces: a piece ends where white space or the end of the story follows."""
        pieces = []
        costs = iter([*self._costs, (len(self._text) + 1, 0.0)])
        position, cost = next(costs)
        for end in _word_ends(self._text):
            bits = 0.0
            while position <= end:
                bits += cost
                position, cost = next(costs)
            pieces.append((end, bits))
        return Story(self._text, tuple(pieces))


class _Plot:
    """The state of one story, who is in it and where the thing is, and the sentences that change it."""

    def __init__(self, telling: _Telling, lexicon: Lexicon) -> None:
        self.telling = telling
        self.lexicon = lexicon
        self.cast: list[str] = []
        self.hero = self.holder = self.trait = self.relative = self.thing = ""
        self.lost: str | None = None

    def pronouns(self, name: str) -> tuple[str, str, str]:
        return ("she", "her", "her") if name in self.lexicon.girls else ("he", "him", "his")

    def someone(self, excluded: str = "") -> str:
        """Says one of the characters, all equally likely."""
        candidates = tuple(name for name in self.cast if name != excluded)
        return self.telling.say_word(candidates, (1.0,) * len(candidates))

    def begin(self) -> None:
        telling, lexicon = self.telling, self.lexicon
        telling.say(lexicon.openings)
        self.trait = telling.say_described(lexicon.traits)
        names = (lexicon.girls, lexicon.boys)[telling.say((" girl named", " boy named"), (1.0, 1.0))]
        self.hero = self.holder = telling.say_word(names)
        self.cast.append(self.hero)
        he, _, his = self.pronouns(self.hero)
        telling.say_forced(f". {he.capitalize()} lived in")
        telling.say_described(lexicon.houses)
        telling.say_forced(" house")
        telling.say_word(lexicon.home_places)
        telling.say_forced(f" with {his}")
        self.relative = telling.say_word(lexicon.relatives)
        telling.say_forced(".\nOne")
        telling.say_word(lexicon.weather)
        telling.say_word(lexicon.times)
        telling.say_forced(f", {self.hero} found")
        self.thing = "the " + telling.say_described(*_described(lexicon.nouns, lexicon.adjectives))
        telling.say_word(lexicon.places)
        telling.say_forced(f". {he.capitalize()} was so happy that {he}")
        telling.say_word(lexicon.joys)
        telling.say_forced(".")

    def events(self) -> list[tuple[float, str, Callable[[], None]]]:
        """The sentences that the state allows next: (weight, how it starts, what goes on)."""
        hero, thing, holder = self.hero, self.thing, self.holder
        legal: list[tuple[float, str, Callable[[], None]]] = []
        if len(self.cast) <= self.lexicon.max_friends:
            legal += [
                (1.0, f" Then {hero} met", self.meet),
                (0.7, f" On the path, {hero} saw", self.meet),
                (0.5, f" A little later, {hero} heard", self.meet),
            ]
        if len(self.cast) == 1:
            return legal
        legal += [
            (0.8, f' "Where is {thing}?" asked', self.ask),
            (0.5, " All of them", self.play),
        ]
        if self.lost:
            legal += [
                (1.4, f" They looked {self.lost}, and", self.find_there),
                (1.0, " After a long search,", self.find_after_search),
            ]
        else:
            his = self.pronouns(holder)[2]
            legal += [
                (1.2, f" {holder} gave {thing} to", self.give),
                (0.8, f' "You may have {thing}," said {holder} to', self.give),
                (0.5, f" It began to rain, so {holder} hid {thing} under {his}", self.cover),
                (0.6, f" By mistake, {holder} dropped {thing}", self.lose),
                (0.4, f" {holder} put {thing} down", self.lose),
            ]
        return legal

    def meet(self) -> None:
        telling, lexicon, hero = self.telling, self.lexicon, self.hero
        telling.say_described(lexicon.animals)
        telling.say_forced(" named")
        names, weights = _all_names(lexicon.girls, lexicon.boys)
        unused = list(weights)
        for name in self.cast:
            unused[names.index(name)] = 0.0
        friend = telling.say_word(names, unused)
        self.cast.append(friend)
        he, him, _ = self.pronouns(friend)
        greetings = (
            f". {he.capitalize()} said hello to {hero}.",
            f". {he.capitalize()} was looking for a friend.",
            f". {hero} waved at {him}, and they became friends.",
            f'. "Come with me," {hero} said to {him}.',
        )
        telling.say(greetings)

    def give(self) -> None:
        self.holder = self.someone(excluded=self.holder)
        self.telling.say_forced(".")

    def cover(self) -> None:
        self.telling.say_word(self.lexicon.covers)
        self.telling.say_forced(".")

    def lose(self) -> None:
        self.lost = self.telling.say_word(self.lexicon.places)
        self.telling.say_forced(f" and forgot it there. {self.holder} felt")
        self.telling.say_word(self.lexicon.moods)
        self.telling.say_forced(".")

    def find_there(self) -> None:
        self.holder = self.someone()
        self.lost = None
        self.telling.say_forced(f" found {self.thing} there.")

    def find_after_search(self) -> None:
        self.holder = self.someone()
        self.lost = None
        self.telling.say_forced(f" came back with {self.thing}.")

    def ask(self) -> None:
        """The state forces the answer. The hero gives it, or the first friend if the hero asked."""
        asker = self.someone()
        speaker = self.hero if asker != self.hero else self.cast[1]
        if self.lost:
            answer = f"We left it {self.lost},"
        elif self.holder == asker:
            answer = "You have it yourself,"
        elif self.holder == speaker:
            answer = "I have it here,"
        else:
            answer = f"{self.holder} has it,"
        self.telling.say_forced(f'. "{answer}" said {speaker}.')

    def play(self) -> None:
        self.telling.say_word(self.lexicon.games)
        self.telling.say_forced(" until")
        self.telling.say_word(self.lexicon.ends)
        self.telling.say_forced(".")

    def end(self) -> None:
        """All forced: the outcome, the moral (from trait and outcome) and supper (a fact about the hero)."""
        outcome = f"{self.thing} was still {self.lost}" if self.lost else f"{self.holder} had {self.thing}"
        moral = ranked(self.lexicon.morals, f"{self.trait} {'lost' if self.lost else 'kept'}")[0]
        food = ranked(self.lexicon.foods, self.hero)[0]
        he, _, his = self.pronouns(self.hero)
        self.telling.say_forced(f" {outcome}. So {self.hero} learned to {moral}.")
        self.telling.say_forced(f" For supper, {he} ate {food} with {his} {self.relative} and went to bed.")


@functools.cache
def _described(
    nouns: tuple[str, ...], adjectives: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The pairs "red ball" with P(noun) P(adjective | noun): each noun has six adjectives of its own."""
    pairs, weights = [], []
    for noun, noun_weight in zip(nouns, _zipf(len(nouns)), strict=True):
        own = ranked(adjectives, noun)[:6]
        total = sum(_zipf(len(own)))
        pairs += [f"{adjective} {noun}" for adjective in own]
        weights += [noun_weight * weight / total for weight in _zipf(len(own))]
    return tuple(pairs), tuple(weights)


@functools.cache
def _all_names(girls: tuple[str, ...], boys: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    return girls + boys, _zipf(len(girls)) + _zipf(len(boys))


def tell(pick: Pick, lexicon: Lexicon = LEXICON) -> Story:
    """Tells one story. `pick` decides: a random one samples, a systematic one enumerates all stories."""
    telling = _Telling(pick)
    plot = _Plot(telling, lexicon)
    plot.begin()
    for told in range(lexicon.max_events + 1):
        events = plot.events() if told < lexicon.max_events else []
        if told >= lexicon.min_events:
            events += [(0.5, f"\n{closing}", plot.end) for closing in lexicon.closings]
        weights, starts, continuations = zip(*events, strict=True)
        go_on = continuations[telling.say(starts, weights)]
        go_on()
        if go_on == plot.end:
            break
    return telling.finish()


def random_pick(key: str) -> Pick:
    """Independent draws from a stream that depends on `key` alone."""
    generator = random.Random(key)

    def pick(weights: Sequence[float]) -> int:
        cumulative = list(accumulate(weights))
        return bisect_right(cumulative, generator.random() * cumulative[-1], hi=len(cumulative) - 1)

    return pick


def generate(*, seed: int, split: str, count: int) -> Iterator[Story]:
    """The first `count` stories of a split. A story depends on (seed, split, its number) alone."""
    for number in range(count):
        yield tell(random_pick(f"{seed}/{split}/{number}"))


def recipe_fingerprint(*, seed: int, stories: int, validation_stories: int) -> str:
    """SHA-256 of all that the texts depend on: recipe version, sources of grammar and words, parameters."""
    sources = (Path(__file__), Path(words.__file__))
    hashes = [hashlib.sha256(source.read_bytes()).hexdigest() for source in sources]
    return digest(str(RECIPE_VERSION), *hashes, str(seed), str(stories), str(validation_stories)).hex()
