"""The plot: what a story says of its things, counts, facts and moral follows from its own earlier words."""

import re
from collections import Counter, defaultdict
from dataclasses import fields

import pytest

from lab.config.schema import Grammar
from lab.data.stories.generator import SKILLS, Story, generate
from lab.data.stories.lexicon import LEXICON
from lab.data.stories.sentences import SENTENCES
from lab.data.stories.world import THING_LISTS

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


@pytest.fixture(scope="module")
def sample() -> list[Story]:
    return list(generate(DEFAULT, seed=7, split="train", count=400))


def test_text_reads_like_prose(sample: list[Story]) -> None:
    for story in sample:
        assert story.text.isascii()
        assert not re.search(r"\s[.,?!]|  |\s$|^\s|\ba [aeio]|\ban [^aeiouh]|\b(\w+) \1\b", story.text)
        assert all(start.isupper() for start in re.findall(r'[.]"?\s"?(.)', story.text))
        assert story.text.count('"') % 2 == 0
        ends = [match.end() for match in re.finditer(r"\S+", story.text)]
        assert [word.end for word in story.words] == ends
        assert all(word.bits >= 0 for word in story.words)


MOVES = re.compile(
    r"(?P<giver>\w+) \w+ (?:gave|handed|passed|offered|brought) the (?P<given>\S+ \S+ \S+) to (?P<to>\w+)\."
    r"|\w+ (?P<giver2>\w+), \w+ing the (?P<given2>\S+ \S+ \S+) to (?P<to2>\w+)\."
    r"|(?P<taker>\w+) \w+ (?:took|grabbed|borrowed|snatched) the (?P<taken>\S+ \S+ \S+) from (?P<owner>\w+)\."
    r"|(?P<swapper>\w+) \w+ (?:traded|swapped|exchanged) the (?P<own>\S+ \S+ \S+)"
    r" for the (?P<wanted>\S+ \S+ \S+) of (?P<partner>\w+)\."
    r"|(?P<loser>\w+) \w+ (?:dropped|lost|left|forgot|hid|put|stuffed|tucked) the (?P<lost>\S+ \S+ \S+)"
    r" (?P<place>[^.]+)\."
    r"|(?P<finder>\w+) \w+ (?:found|discovered|spotted|noticed) the (?P<found>\S+ \S+ \S+) (?P<there>[^.]+)\."
    r"|(?P<keeper>\w+) (?:\w+ )?(?:found|discovered|spotted|noticed|won|carried) an? (?P<new>\S+ \S+ [^\s.]+)"
    r"(?! named)(?:\.| and)"
    r"|(?P<asker>\w+) \w+ asked (?P<asked>\w+), \"[^\"]* the (?P<thing>\S+ \S+ \S+)\?\""
    r" \"(?P<answer>[^\"]*),\""
)


def test_who_has_what_follows_from_the_text(sample: list[Story]) -> None:
    """Follows the things through the printed sentences, without the generator's own state."""
    seen, outcomes = Counter[str](), Counter[str]()
    for story in sample:
        hero = re.search(r"named (\w+)\.", story.text)[1]
        named = dict(re.findall(r"named (\w+), who \w+ (carried an? \S+ \S+ [^\s.]+)", story.text))
        where: dict[str, str] = {}
        for match in MOVES.finditer(story.text):
            m = {key.rstrip("2"): value for key, value in match.groupdict().items() if value}
            seen[min(m)] += 1
            if "new" in m:
                carried = next((name for name, text in named.items() if text.endswith(" " + m["new"])), None)
                where[m["new"]] = carried or (m["keeper"] if where else hero)
            elif "given" in m:
                assert where[m["given"]] == m["giver"] != m["to"]
                where[m["given"]] = m["to"]
            elif "taken" in m:
                assert where[m["taken"]] == m["owner"] != m["taker"]
                where[m["taken"]] = m["taker"]
            elif "wanted" in m:
                assert (where[m["own"]], where[m["wanted"]]) == (m["swapper"], m["partner"])
                where[m["own"]], where[m["wanted"]] = m["partner"], m["swapper"]
            elif "lost" in m:
                assert where[m["lost"]] == m["loser"]
                where[m["lost"]] = m["place"]
            elif "found" in m:
                assert where[m["found"]] == m["there"]
                where[m["found"]] = m["finder"]
            elif "answer" in m:
                at = where[m["thing"]]
                expected = {m["asker"]: "You have it yourself", m["asked"]: "I have it here"}
                expected = expected.get(at, f"{at} has it" if at.istitle() else f"It is {at}")
                assert m["answer"] == expected, story.text
        first, at = next(iter(where.items()))
        assert (
            f"{at} still had the {first}." if at.istitle() else f"the {first} was still {at}."
        ) in story.text
        outcomes["kept" if at == hero else "given" if at.istitle() else "lost"] += 1
    assert len(seen) == 7 and min(seen.values()) >= 20, seen
    assert min(outcomes.values()) >= 40, outcomes


def test_every_count_follows_from_the_text(sample: list[Story]) -> None:
    numbers = {word: n for n, word in enumerate(LEXICON.numbers, 1)}
    changes = 0
    for story in sample:
        count = numbers[
            re.search(r"\nOne .*? and (\w+) \w+ \w+ (?:in|on|at|by|near|under|be|inside)", story.text)[1]
        ]
        for fewer, left, more, total, told in re.findall(
            r"(\w+) of the \w+, which left (\w+)\.|(\w+) more \w+, which made (\w+) |\"We have (\w+),\"",
            story.text,
        ):
            count += numbers.get(more, 0) - numbers.get(fewer, 0)
            assert count == numbers[left or total or told], story.text
            changes += not told
        assert (
            re.search(r"(\w+) \w+ (?:was|were) left\. For", story.text)[1].lower()
            == LEXICON.numbers[count - 1]
        )
    assert changes > 100


def test_facts_and_morals_are_functions_of_what_stands_far_before(sample: list[Story]) -> None:
    known: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for story in [*sample, *generate(DEFAULT, seed=8, split="validation", count=200)]:
        text = story.text
        trait, hero, town = re.search(
            r"an? (\w+) (?:girl|boy) named (\w+)\. .*? (\w+), \w+ \w+ lived", text
        ).groups()
        food, drink, dream = re.search(
            r" had ([\w-]+) and ([\w-]+), then \w+ dreamed of (\w+)\.", text
        ).groups()
        known["food", hero].add(food)
        known["drink", hero].add(drink)
        known["dream", hero].add(dream)
        for name, liking in re.findall(r"named (\w+), who [^.]*\. Mostly, s?he drank (\S+)\.", text):
            known["drink", name].add(liking)
        for weather in re.findall(r"The weather there was mostly (\w+)", text):
            known["weather", town].add(weather)
        ending = re.search(r"[^.]*\.[^.]*\. For supper", text)[0]
        outcome = "lost" if " was still " in ending else "kept" if f"{hero} still had" in ending else "given"
        moral = re.search(r" to ([^.]+)\.$", text)[1]
        known["moral", trait, outcome].add(moral)
    assert all(len(values) == 1 for values in known.values())
    assert sum(key[0] == "moral" for key in known) > 60
    assert len({next(iter(values)) for key, values in known.items() if key[0] == "moral"}) >= 20


def test_a_fact_stands_at_least_eight_words_from_its_key(sample: list[Story]) -> None:
    facts = SKILLS.index("facts")
    for story in sample:
        texts = story.text.split()
        names = {
            word.strip('.,"') for before, word in zip(texts, texts[1:], strict=False) if before == "named"
        }
        names.add(re.search(r"(\w+), \w+ \w+ lived", story.text)[1])
        for at, word in enumerate(story.words):
            if word.skill == facts:
                assert not names & {near.strip('.,"') for near in texts[max(0, at - 8) : at]}


def test_every_event_has_at_least_ten_surface_forms() -> None:
    events = [event for event in SENTENCES.events if event.forms]
    assert len(events) >= 10
    assert all(sum(len(form.heads) for form in event.forms) >= 10 for event in events)


def test_no_word_stands_twice_in_a_list_and_no_thing_in_two() -> None:
    for field in fields(LEXICON):
        words = getattr(LEXICON, field.name)
        assert len(set(words)) == len(words), field.name
    things = [noun for name in THING_LISTS for noun in getattr(LEXICON, name)]
    assert len(set(things)) == len(things)
