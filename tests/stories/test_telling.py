"""Telling: every word costs -log2 of its probability given the words before, forced or not, with noise or
without.
"""

import math
from collections.abc import Callable, Container, Iterator, Sequence

import pytest

from lab.data.stories.decision_table import DecisionTable
from lab.data.stories.telling import COPY, LEXICAL, STATE, StatedChoice, Telling, random_pick


def all_tellings(tell: Callable[[Telling], None], noise: float = 0.0) -> Iterator[Telling]:
    """Every sequence of decisions, in the order of an odometer."""
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

        telling = Telling(pick, noise)
        tell(telling)
        yield telling
        while path and path[-1] == len(options[len(path) - 1]) - 1:
            path.pop()
        if not path:
            return
        path[-1] += 1


def outcomes(tell: Callable[[Telling], None], noise: float = 0.0) -> dict[str, tuple[float, ...]]:
    """Each text with the bits of its words; no text comes twice and the probabilities sum to 1."""
    told = [telling.finish()[:2] for telling in all_tellings(tell, noise)]
    texts = {text: tuple(word.bits for word in words) for text, words in told}
    assert len(texts) == len(told)
    assert math.fsum(2.0 ** -sum(bits) for bits in texts.values()) == pytest.approx(1.0)
    return texts


def test_bits_fall_on_the_words_that_rule_others_out() -> None:
    table = DecisionTable(("an owl", "a cat", "a cow"), (2.0, 1.0, 1.0), LEXICAL)
    texts = outcomes(lambda telling: telling.say(table))
    assert texts == {"an owl": (1.0, 0.0), "a cat": (1.0, 1.0), "a cow": (1.0, 1.0)}


def test_what_is_excluded_costs_the_others_less() -> None:
    table = DecisionTable(("red ball", "red kite", "old ball"), (1.0, 1.0, 2.0), LEXICAL)
    texts = outcomes(lambda telling: telling.say(table, (1,)))
    assert texts["red ball"] == pytest.approx((math.log2(3), 0.0))
    assert texts["old ball"] == pytest.approx((math.log2(3 / 2), 0.0))


def test_equally_likely_alternatives() -> None:
    texts = outcomes(
        lambda telling: telling.say_one_of(("the red ball", "the old key", "the old map"), STATE)
    )
    assert texts["the old map"] == pytest.approx((0.0, math.log2(3 / 2), 1.0))
    assert texts["the red ball"] == pytest.approx((0.0, math.log2(3), 0.0))


@pytest.mark.parametrize("alternatives", [("the park", "the park gate"), ("a", "a"), ("ball. Then", "ball.")])
def test_an_alternative_that_starts_another_is_refused(alternatives: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="ambiguous"):
        DecisionTable(alternatives, (1.0,) * len(alternatives), LEXICAL)
    with pytest.raises(ValueError, match="ambiguous"):
        Telling(random_pick("")).say_one_of(alternatives, LEXICAL)


def test_white_space_must_follow_from_the_words() -> None:
    with pytest.raises(ValueError, match="ambiguous"):
        DecisionTable(("\nThen he", " Then she"), (1.0, 1.0), LEXICAL)
    assert [words[0] for words in DecisionTable(("\nSo he", "Then"), (1.0, 1.0), LEXICAL).words] == [
        "\nSo",
        " Then",
    ]


def test_a_forced_word_is_free_and_noise_has_its_price() -> None:
    def tell(telling: Telling) -> None:
        telling.force("Tom has the", STATE)
        telling.recall("red", ("old", "red", "big"), COPY)
        telling.recall("ball", ("ball", "boat", "key"), COPY, "", ".")

    assert outcomes(tell) == {"Tom has the red ball.": (0.0,) * 5}
    texts = outcomes(tell, noise=0.25)
    assert len(texts) == 9
    assert texts["Tom has the red ball."][3:] == pytest.approx((-math.log2(0.75), -math.log2(0.75)))
    assert texts["Tom has the big boat."][3:] == pytest.approx((3.0, 3.0))


def test_noise_on_several_words_is_spread_over_them() -> None:
    def tell(telling: Telling) -> None:
        telling.force("It is", STATE)
        telling.recall("in the barn", ("in the barn", "in the box", "on a hill"), STATE)

    texts = outcomes(tell, noise=0.5)
    assert texts["It is in the box"][2:] == pytest.approx((-math.log2(0.75), 0.0, -math.log2(0.25 / 0.75)))
    assert texts["It is in the barn"][2:] == pytest.approx((-math.log2(0.75), 0.0, -math.log2(0.5 / 0.75)))


def test_a_choice_sets_the_truth_against_a_candidate() -> None:
    telling = Telling(random_pick(""))
    telling.force("Tom ate", STATE)
    telling.recall("two", ("two", "six"), COPY, "", ".")
    text, words, choices = telling.finish()
    assert text == "Tom ate two."
    assert choices == (StatedChoice(7, COPY, " two.", " six."),)
    assert [word.end for word in words] == [3, 7, 12]


def test_a_told_text_is_recognised() -> None:
    table = DecisionTable(("an owl", "a cat", "a cow"), (2.0, 1.0, 1.0), LEXICAL)
    for index, heard in enumerate(("an owl", "a cat", "a cow")):
        assert Telling(random_pick(""), heard=heard.split()).say(table) == index
    with pytest.raises(ValueError) as stop:
        Telling(random_pick(""), heard=["a", "dog"]).say(table)
    assert stop.value.args == (1,)


def test_random_picks_come_as_often_as_their_weights() -> None:
    pick = random_pick("fixed")
    drawn = [pick((1.0, 4.0, 10.0), (1,)) for _ in range(7000)]
    assert 1 not in drawn
    assert abs(drawn.count(0) - 1000) < 4 * math.sqrt(1000 * 6 / 7)
