"""Stories: the claimed -log2 P(text) is the probability with which the text comes, and the text makes sense."""

import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

import pytest
from scipy.stats import chisquare

from lab.data.stories import LEXICON, Story, _Telling, generate, random_pick, recipe_fingerprint, tell

TINY = replace(
    LEXICON,
    girls=("Ann",),
    boys=("Bob",),
    openings=LEXICON.openings[:1],
    traits=("kind",),
    houses=LEXICON.houses[:1],
    home_places=LEXICON.home_places[:1],
    relatives=LEXICON.relatives[:1],
    weather=LEXICON.weather[:1],
    times=LEXICON.times[:1],
    nouns=("ball",),
    adjectives=("red", "old"),
    places=("in the garden", "in the forest"),
    animals=("owl",),
    joys=LEXICON.joys[:1],
    moods=LEXICON.moods[:1],
    games=LEXICON.games[:1],
    ends=LEXICON.ends[:1],
    covers=LEXICON.covers[:1],
    closings=LEXICON.closings[:1],
    max_friends=1,
    min_events=2,
    max_events=3,
)


def all_stories() -> Iterator[Story]:
    """Every sequence of decisions of the cut-down grammar, in the order of an odometer."""
    path: list[int] = []
    while True:
        options: list[list[int]] = []

        def pick(weights: Sequence[float], options: list[list[int]] = options) -> int:
            possible = [i for i, weight in enumerate(weights) if weight > 0]
            options.append(possible)
            if len(options) > len(path):
                path.append(0)
            return possible[path[len(options) - 1]]

        yield tell(pick, TINY)
        while path and path[-1] == len(options[len(path) - 1]) - 1:
            path.pop()
        if not path:
            return
        path[-1] += 1


@pytest.fixture(scope="module")
def every_story() -> list[Story]:
    return list(all_stories())


def probability(story: Story) -> float:
    return 2.0 ** -sum(bits for _, bits in story.pieces)


def test_probabilities_of_all_stories_sum_to_one_and_no_text_comes_twice(every_story: list[Story]) -> None:
    assert len(every_story) > 5000
    assert len({story.text for story in every_story}) == len(every_story)
    assert math.fsum(map(probability, every_story)) == pytest.approx(1.0, abs=1e-9)


def test_bits_up_to_a_word_are_the_probability_of_starting_with_these_bytes(every_story: list[Story]) -> None:
    ordered = sorted(every_story, key=lambda story: story.text)
    texts = [story.text for story in ordered]
    mass = [0.0, *accumulate(map(probability, ordered))]
    for story in every_story[::30]:
        bits = 0.0
        for end, cost in story.pieces:
            bits += cost
            prefix = story.text[:end]
            first, last = bisect_left(texts, prefix), bisect_left(texts, prefix + "\x7f")
            assert 2.0**-bits == pytest.approx(mass[last] - mass[first], rel=1e-6), prefix


def test_stories_come_as_often_as_their_bits_say(every_story: list[Story]) -> None:
    draws = 20_000
    expected = {story.text: draws * probability(story) for story in every_story}
    seen = Counter(tell(random_pick(f"chi-square {i}"), TINY).text for i in range(draws))
    assert seen.keys() <= expected.keys()
    likely = [text for text, count in expected.items() if count >= 5]
    assert len(likely) > 100
    rest = draws - sum(expected[text] for text in likely)
    observed = [seen[text] for text in likely]
    result = chisquare([*observed, draws - sum(observed)], [*(expected[text] for text in likely), rest])
    assert result.pvalue > 1e-4


def test_an_alternative_that_starts_another_is_refused() -> None:
    with pytest.raises(ValueError, match="ambiguous"):
        _Telling(lambda weights: 0).say((" the park", " the parks"))


def test_bits_fall_on_the_first_word_that_differs() -> None:
    telling = _Telling(lambda weights: 1)
    telling.say((" an owl", " a cat", " a cow"), (2.0, 1.0, 1.0))
    telling.say_forced(".")
    # "a" starts "an" too, so it says nothing yet; then "cat" is one of four parts.
    assert telling.finish() == Story(" a cat.", ((2, 0.0), (7, 2.0)))


@pytest.fixture(scope="module")
def sample() -> list[Story]:
    return list(generate(seed=7, split="train", count=300))


def test_text_reads_like_prose(sample: list[Story]) -> None:
    for story in sample:
        assert story.text.isascii()
        assert not re.search(r"\s[.,?!]|  |\s$|\ba [aeiou]|\ban [^aeiou]", story.text)
        assert all(start.isupper() for start in re.findall(r'\.\s"?(.)', story.text))
        assert 100 <= len(story.text.split()) <= 230
        assert [end for end, _ in story.pieces] == [match.end() for match in re.finditer(r"\S+", story.text)]
        assert all(bits >= 0 for _, bits in story.pieces)


def test_the_end_follows_from_what_happened(sample: list[Story]) -> None:
    """Follows the thing through the printed sentences, without the generator's own state."""
    moves = re.compile(
        r'gave the \w+ \w+ to (\w+)|," said \w+ to (\w+)\.|and (\w+) found the|search, (\w+) came|'
        r"(?:dropped the \w+ \w+|down) ((?:\w+ )+)and forgot"
    )
    outcomes = Counter[str]()
    for story in sample:
        body, ending = story.text.rsplit("\n", 1)
        holder, place = re.search(r"named (\w+)", body)[1], None
        for *receivers, lost in moves.findall(body):
            holder, place = ("", lost.strip()) if lost else ("".join(receivers), None)
        expected = rf"was still {place}\." if place else rf", {holder} had the"
        assert re.search(expected, ending), story.text
        outcomes["lost" if place else "kept"] += 1
    assert min(outcomes.values()) > 30


def test_the_moral_is_a_function_of_trait_and_outcome_and_supper_of_the_hero(sample: list[Story]) -> None:
    known: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for story in sample:
        trait, hero = re.search(r"an? (\w+) (?:girl|boy) named (\w+)", story.text).groups()
        moral, food = re.search(r"learned to ([^.]+)\. For supper, s?he ate (\w+)", story.text).groups()
        known["moral", trait, str("was still" in story.text)].add(moral)
        known["food", hero].add(food)
    assert all(len(values) == 1 for values in known.values())


def test_a_story_depends_on_seed_split_and_number_only(sample: list[Story]) -> None:
    assert list(generate(seed=7, split="train", count=5)) == sample[:5]
    others = [*generate(seed=7, split="validation", count=300), *generate(seed=8, split="train", count=300)]
    assert not {story.text for story in sample} & {story.text for story in others}


def test_the_fingerprint_knows_every_parameter() -> None:
    base = {"seed": 0, "stories": 10, "validation_stories": 5}
    prints = {recipe_fingerprint(**{**base, **change}) for change in ({}, *({key: 99} for key in base))}
    assert len(prints) == 4
