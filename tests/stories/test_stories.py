"""Stories: the claimed -log2 P(text) is the probability with which the text comes, and it makes sense."""

import hashlib
import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import fields, replace
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from lab.config.compose import Override, compose
from lab.config.schema import Grammar, Vocab
from lab.config.strict import ConfigError
from lab.data.stories.generator import (
    RECIPE_VERSION,
    SKILLS,
    Story,
    generate,
    parse,
    recipe_fingerprint,
    retell,
    tell,
)
from lab.data.stories.lexicon import LEXICON, Lexicon
from lab.data.stories.sentences import SENTENCES, Event, Form, Sentences
from lab.data.stories.telling import random_pick
from lab.data.stories.world import THING_LISTS, World, world_of
from lab.data.tokenizer import train_tokenizer

DEFAULT = Grammar(
    words=1.0,
    zipf_exponent=1.1,
    facts=10_000,
    objects=3,
    friends=3,
    events=5.0,
    distance=2,
    noise=0.0,
    languages=1,
)
GOLDEN = {2: "94adefcc0ebe65a042aac4d57357b1bc15fd972e0660db74339545f0f21e018d"}
"""SHA-256 of the first stories for the default knobs, by recipe version."""


def few_words(highest: int, places: int) -> Lexicon:
    """One or two words a class, so that all texts can be listed."""
    values = {f.name: getattr(LEXICON, f.name)[:1] for f in fields(LEXICON)}
    values |= {"girls": ("Ann", "Eve"), "boys": ("Bob",), "numbers": LEXICON.numbers[:highest]}
    values |= {"places": LEXICON.places[:places]}
    values |= {
        "person_facts": tuple(fact for fact in LEXICON.person_facts if fact[0] in ("food", "drink", "dream"))
    }
    return Lexicon(**values)


def few_sentences(*events: str) -> Sentences:
    """One head a form, at most two inline alternatives, and the named events."""

    def cut(form: Form) -> Form:
        return Form(form.heads[:1], re.sub(r"\[([^]|]*\|?[^]|]*)[^]]*\]", r"[\1]", form.body))

    return replace(
        SENTENCES,
        opening=cut(SENTENCES.opening),
        home=cut(SENTENCES.home),
        find=Form(
            ("One",), "{weather} {time}, {he} found {a_thing} and {first_count} {ripe} {counted} {place}."
        ),
        person_facts=SENTENCES.person_facts[:1],
        scenery=tuple(cut(form) for form in SENTENCES.scenery[:2]),
        events=tuple(
            Event(event.name, event.weight, event.needs, tuple(cut(form) for form in event.forms[:1]))
            for event in SENTENCES.events
            if event.name in events
        ),
        ending=cut(SENTENCES.ending),
        moral=tuple(cut(form) for form in SENTENCES.moral[:1]),
    )


SMALL = replace(DEFAULT, facts=2, objects=2, friends=1, distance=0, events=1.2)
WORLDS = {
    "all events": (SMALL, 6, 1, [event.name for event in SENTENCES.events]),
    "in a row": (replace(SMALL, events=1.6, objects=1), 3, 2, ["meet", "lose", "find", "eat"]),
    "two languages": (replace(SMALL, languages=2), 4, 2, ["meet", "bring", "take", "swap", "where", "chat"]),
}


def all_stories(world: World) -> Iterator[Story]:
    """Every sequence of decisions of the cut-down grammar, in the order of an odometer."""
    path: list[int] = []
    while True:
        options: list[list[int]] = []

        def pick(
            cumulative: Sequence[float], excluded: Container[int], options: list[list[int]] = options
        ) -> int:
            options.append([i for i in range(len(cumulative)) if i not in excluded])
            if len(options) > len(path):
                path.append(0)
            return options[-1][path[len(options) - 1]]

        yield tell(pick, world)
        while path and path[-1] == len(options[len(path) - 1]) - 1:
            path.pop()
        if not path:
            return
        path[-1] += 1


@pytest.fixture(scope="module", params=WORLDS)
def small_world(request: pytest.FixtureRequest) -> tuple[World, list[Story]]:
    grammar, highest, places, events = WORLDS[request.param]
    world = world_of(grammar, few_words(highest, places), few_sentences(*events))
    return world, list(all_stories(world))


def probability(story: Story) -> float:
    return 2.0 ** -sum(word.bits for word in story.words)


@pytest.mark.slow
def test_probabilities_of_all_stories_sum_to_one_and_no_text_comes_twice(
    small_world: tuple[World, list[Story]],
) -> None:
    _, stories = small_world
    assert len(stories) > 1000
    assert len({story.text for story in stories}) == len(stories)
    assert math.fsum(map(probability, stories)) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.slow
def test_bits_up_to_a_word_are_the_probability_of_starting_with_these_words(
    small_world: tuple[World, list[Story]],
) -> None:
    _, stories = small_world
    ordered = sorted((story.text.split(), probability(story)) for story in stories)
    texts = [words for words, _ in ordered]
    mass = [0.0, *accumulate(p for _, p in ordered)]
    for story in stories[:: len(stories) // 150]:
        told = story.text.split()
        for k, bits in enumerate(accumulate(word.bits for word in story.words), 1):
            first, last = bisect_left(texts, told[:k]), bisect_left(texts, [*told[:k], "\x7f"])
            assert 2.0**-bits == pytest.approx(mass[last] - mass[first], rel=1e-6), told[:k]


def test_parsing_recovers_every_story(small_world: tuple[World, list[Story]]) -> None:
    world, stories = small_world
    for story in stories[:: len(stories) // 200]:
        assert retell(story.text, world) == story


@pytest.mark.slow
def test_stories_come_as_often_as_their_bits_say(small_world: tuple[World, list[Story]]) -> None:
    world, stories = small_world
    draws = 3_000
    expected = {story.text: draws * probability(story) for story in stories}
    seen = Counter(tell(random_pick(f"chi-square {i}"), world).text for i in range(draws))
    assert seen.keys() <= expected.keys()
    likely = [text for text, count in expected.items() if count >= 5]
    assert len(likely) > 20
    rest = draws - sum(expected[text] for text in likely)
    observed = [seen[text] for text in likely]
    result = chisquare([*observed, draws - sum(observed)], [*(expected[text] for text in likely), rest])
    assert result.pvalue > 1e-4


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    words=st.sampled_from((0.3, 0.01)),
    objects=st.integers(1, 3),
    friends=st.integers(1, 3),
    events=st.sampled_from((1.0, 5.0, 12.0)),
    distance=st.integers(0, 5),
    noise=st.sampled_from((0.0, 0.3)),
    languages=st.sampled_from((1, 3)),
)
def test_parsing_is_the_inverse_of_telling(seed: int, **knobs: int | float) -> None:
    grammar = replace(DEFAULT, facts=1000, **knobs)
    for story in generate(grammar, seed=seed, split="train", count=2):
        assert parse(story.text, grammar) == story


@pytest.fixture(scope="module")
def sample() -> list[Story]:
    return list(generate(DEFAULT, seed=7, split="train", count=400))


def test_a_text_outside_the_grammar_is_refused_where_it_leaves(sample: list[Story]) -> None:
    for story in sample[:20]:
        wrong = story.text.replace(" dreamed of ", " dreamed about ")
        with pytest.raises(ValueError, match=f"byte {wrong.index('about ')}:"):
            parse(wrong, DEFAULT)
        for cut in (story.text[:100], story.text + " The", story.text.replace("\n", " ", 1), ""):
            with pytest.raises(ValueError, match="byte"):
                parse(cut, DEFAULT)


def test_the_other_side_of_a_choice_is_impossible(sample: list[Story]) -> None:
    skills = Counter[int]()
    for story in sample[:70]:
        for start, skill, truth, other in story.choices:
            assert story.text.startswith(truth, start) and other != truth
            assert start in [word.end for word in story.words]
            skills[skill] += 1
            with pytest.raises(ValueError, match="byte") as stop:
                parse(story.text[:start] + other + story.text[start + len(truth) :], DEFAULT)
            assert start <= int(re.search(r"byte (\d+)", str(stop.value))[1]) < start + len(other)
    assert all(70 <= skills[skill] <= 210 for skill in range(len(SKILLS)))


def test_size_entropy_and_skills_are_as_designed(sample: list[Story]) -> None:
    lengths = [len(story.words) for story in sample]
    assert min(lengths) >= 120 and max(lengths) <= 250
    assert 1.5 <= sum(word.bits for story in sample for word in story.words) / sum(lengths) <= 2.0
    words = Counter(word.skill for story in sample for word in story.words)
    least = {"copy": 5, "state": 5, "counting": 2.9, "facts": 2, "moral": 2}
    for skill, name in enumerate(SKILLS):
        assert words[skill] / len(sample) >= least.get(name, 4), name
        assert all(any(word.skill == skill for word in story.words) for story in sample)


@pytest.fixture(scope="module")
def many_texts() -> list[str]:
    return [story.text for story in generate(DEFAULT, seed=1, split="train", count=2000)]


@pytest.mark.slow
def test_there_are_as_many_word_types_as_designed(many_texts: list[str]) -> None:
    types = {word.strip('".,!?').lower() for text in many_texts for word in text.split()}
    names = {*LEXICON.girls, *LEXICON.boys, *LEXICON.towns}
    assert 1500 <= len(types) <= 3000
    assert len(types & {name.lower() for name in names}) <= len(types) / 3


def test_a_tokenizer_of_4096_tokens_can_be_trained(many_texts: list[str]) -> None:
    assert train_tokenizer(iter(many_texts), Vocab("bpe", 4096)).vocab_size == 4096


def test_a_story_depends_on_grammar_seed_split_and_number_only(sample: list[Story]) -> None:
    assert list(generate(DEFAULT, seed=7, split="train", count=5, first=20)) == sample[20:25]
    others = [
        *generate(DEFAULT, seed=7, split="validation", count=300),
        *generate(DEFAULT, seed=8, split="train", count=300),
    ]
    assert not {story.text for story in sample} & {story.text for story in others}


COUNT = 60
LIGHT = replace(DEFAULT, words=0.3, facts=1000)


def told(**knobs: int | float) -> list[Story]:
    return list(generate(replace(LIGHT, **knobs), seed=7, split="train", count=COUNT))


@pytest.mark.slow
def test_every_knob_acts() -> None:
    def types(stories: list[Story]) -> int:
        return len({word for story in stories for word in story.text.split()})

    def bits(stories: list[Story]) -> float:
        return sum(word.bits for story in stories for word in story.words)

    def things(story: Story) -> int:
        return len(
            re.findall(r"(?:found|discovered|spotted|noticed|won|carried) an? \S+ \S+ (?!named)", story.text)
        )

    usual = told()
    assert types(told(words=0.1)) < 0.8 * types(usual)
    assert bits(told(zipf_exponent=2.0)) < bits(usual) < bits(told(zipf_exponent=0.0))
    assert types(told(facts=100)) < types(usual)
    assert {things(story) for story in told(objects=1)} == {1}
    assert {story.text.count(" named ") for story in told(friends=1)} == {2}
    assert max(story.text.count(" named ") for story in told(friends=3, events=12)) == 4
    lengths = [sum(len(s.words) for s in told(events=events)) for events in (2, 4, 8)]
    assert lengths == sorted(lengths)
    apart = [sum(len(s.words) for s in told(distance=distance)) for distance in (0, 1, 2)]
    assert apart == sorted(apart)
    assert max(len(story.words) for story in told(events=40, distance=9)) <= 250


def test_noise_costs_what_it_should() -> None:
    """Each forced word among k candidates is worth h(e) + e log2(k - 1) bits; here the pronoun before
    "lived".
    """
    noise, stories = 0.2, told(noise=0.2)
    wrong = Counter[bool]()
    for story in stories:
        child, pronoun = re.search(r"(girl|boy) named .*?, (\w+) \w+ lived", story.text, re.DOTALL).groups()
        right = pronoun == {"girl": "she", "boy": "he"}[child]
        wrong[right] += 1
        at = re.search(r", (\w+) \w+ lived", story.text).end(1)
        bits = next(word.bits for word in story.words if word.end == at)
        assert bits == pytest.approx(-math.log2(1 - noise if right else noise / 2))
    assert abs(wrong[False] - COUNT * noise) < 4 * math.sqrt(COUNT * noise * (1 - noise))


def test_languages_share_the_grammar_but_no_word() -> None:
    stories = told(languages=3)
    vocabularies: dict[str, set[str]] = defaultdict(set)
    english = {word for story in told() for word in re.findall(r"[\w-]+", story.text.lower())}
    for story in stories:
        words = re.findall(r"[\w-]+", story.text.lower())
        shared = len(set(words) & english) / len(set(words))
        assert shared > 0.9 or shared == 0.0
        vocabularies["English" if shared else re.search(r"\w+", story.text)[0][:1]].update(words)
        assert story.words[0].bits >= math.log2(3)
    assert len(vocabularies) >= 3
    assert abs(sum(" named " in story.text for story in stories) - COUNT / 3) < 4 * math.sqrt(COUNT * 2 / 9)


@pytest.mark.parametrize(
    "knob, value",
    [
        ("words", 0.0),
        ("words", 1.5),
        ("zipf_exponent", -1.0),
        ("zipf_exponent", 5.0),
        ("facts", 10**9),
        ("facts", 0),
        ("objects", 0),
        ("objects", 4),
        ("friends", 0),
        ("friends", 21),
        ("events", 0.5),
        ("events", 41.0),
        ("distance", -1),
        ("distance", 21),
        ("noise", 1.0),
        ("noise", float("nan")),
        ("languages", 0),
        ("languages", 21),
    ],
)
def test_knobs_with_which_no_story_can_be_told_are_refused(knob: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"data\.grammar\.{knob} = {value}: "):
        next(generate(replace(DEFAULT, **{knob: value}), seed=0, split="train", count=1))


@pytest.mark.parametrize("knob, value", [("facts", 0), ("objects", 4), ("distance", 21), ("noise", 1.0)])
def test_a_configuration_refuses_the_same_knobs(knob: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"data\.grammar\.{knob} = {value} "):
        compose([Override("data=stories"), Override(f"data.grammar.{knob}={value}")])


@pytest.mark.parametrize("knobs", [{"objects": len(THING_LISTS)}, {"friends": 20, "events": 40.0}])
def test_stories_can_be_told_at_the_end_of_each_range(knobs: dict[str, float]) -> None:
    """Each further thing needs a list of its own, each further friend a name and a place in the story."""
    assert len(list(generate(replace(LIGHT, **knobs), seed=0, split="train", count=20))) == 20
    for name, most in knobs.items():
        with pytest.raises(ConfigError, match=rf"data\.grammar\.{name} = {most + 1}: "):
            next(generate(replace(LIGHT, **{name: most + 1}), seed=0, split="train", count=1))


def test_the_fingerprint_knows_every_parameter() -> None:
    base = {"seed": 0, "stories": 10, "validation_stories": 5}
    knobs = [replace(DEFAULT, **{f.name: getattr(DEFAULT, f.name) + 1}) for f in fields(DEFAULT)]
    prints = {
        recipe_fingerprint(DEFAULT, **{**base, **change}) for change in ({}, *({key: 99} for key in base))
    }
    prints |= {recipe_fingerprint(grammar, **base) for grammar in knobs}
    assert len(prints) == 4 + len(knobs)


def test_the_stories_of_a_recipe_version_never_change() -> None:
    stories = generate(DEFAULT, seed=0, split="train", count=40)
    shown = [
        (story.text, [(word.end, round(word.bits, 6), word.skill) for word in story.words], story.choices)
        for story in stories
    ]
    found = hashlib.sha256(
        repr([(t, w, [tuple(c) for c in choices]) for t, w, choices in shown]).encode()
    ).hexdigest()
    assert GOLDEN.get(RECIPE_VERSION) == found, (
        "the stories have changed: raise RECIPE_VERSION in lab/data/stories/generator.py "
        "and add its hash to GOLDEN"
    )
