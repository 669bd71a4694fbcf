"""Near duplicates: the similarities of plain sets of substrings, on edited copies and on real files."""

import gzip
import json
import random
from itertools import product

import pytest

from lab.data.near_duplicates import ShingleIndex, _codes, _shingles, similarity
from tests import paths

SHARED = paths.SHARED / "data"
WORDS = [
    f"{a}{b}{c}" for a, b, c in product(("ba", "ki", "lo", "mu"), ("n", "st", "r"), ("e", "on", "ing", "y"))
]
HAN = "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏闰余成岁律吕调阳云腾致雨露结为霜"


def shingles(text: str) -> set[str]:
    """By the definition, as strings; one Han character is as long as three letters."""
    plain = "".join(c * 3 if c in HAN else c for c in " ".join(text.casefold().split()))
    return {plain[i : i + 12] for i in range(len(plain) - 11)}


def jaccard(a: str | set[str], b: str | set[str]) -> float:
    a, b = (shingles(x) if isinstance(x, str) else x for x in (a, b))
    return len(a & b) / len(a | b)


def edited(text: str, share: float, draw: random.Random, words: list[str] = WORDS) -> str:
    """A copy with this share of its words replaced."""
    copy = text.split(" ")
    for i in draw.sample(range(len(copy)), round(share * len(copy))):
        copy[i] = draw.choice(words)
    return " ".join(copy)


def texts(path: str, count: int | None = None) -> list[str]:
    with gzip.open(SHARED / path, "rt") as file:
        return [json.loads(line)["text"] for line in file][:count]


def test_similarity_is_that_of_the_sets_of_substrings() -> None:
    draw = random.Random(0)
    text = " ".join(draw.choices(WORDS, k=100))
    for share in (0.0, 0.05, 0.3, 1.0):
        other = edited(text, share, draw)
        assert similarity(_shingles(_codes(text)), _shingles(_codes(other))) == pytest.approx(
            jaccard(text, other)
        )


@pytest.mark.parametrize("alphabet", ["words", "han"])
def test_finds_what_comparing_all_pairs_finds(alphabet: str) -> None:
    draw = random.Random(1)
    unit, space = (WORDS, " ") if alphabet == "words" else (list(HAN), "")
    # Every text starts alike: more texts than a shingle has owners.
    opening = space.join(draw.choices(unit, k=20)) + space
    kept = [opening + space.join(draw.choices(unit, k=draw.randrange(200, 400))) for _ in range(40)]
    asked = []
    for i, share in enumerate([0.02, 0.05, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.5] * 8):
        pieces = kept[i % 40].split(" ") if space else list(kept[i % 40])
        for k in draw.sample(range(len(pieces)), round(share * len(pieces))):
            pieces[k] = draw.choice(unit)
        asked.append(space.join(pieces))
    sets, other_sets = ([shingles(text) for text in some] for some in (kept, asked))
    expected = [[j for j, own in enumerate(sets) if jaccard(other, own) >= 0.4] for other in other_sets]
    assert 20 < sum(map(len, expected)) < 70
    assert ShingleIndex(kept).find(asked) == expected


def test_case_and_white_space_do_not_count_and_short_texts_are_not_compared() -> None:
    text = " ".join(random.Random(2).choices(WORDS, k=60))
    assert ShingleIndex([text, "other"]).find([text.upper().replace(" ", "\n  "), "other", ""]) == [
        [0],
        [],
        [],
    ]
    assert ShingleIndex([text[:199]]).find([text[:199]]) == [[]]
    assert ShingleIndex([text[:200]]).find([text[:200]]) == [[0]]


def test_shingles_do_not_cross_from_one_text_into_the_next() -> None:
    text = " ".join(random.Random(3).choices(WORDS, k=200))
    half = len(text) // 2
    assert ShingleIndex([text]).find([text[:half], text[half:], text]) == [
        [0] if jaccard(text, t) >= 0.4 else [] for t in (text[:half], text[half:], text)
    ]
    assert ShingleIndex([text, "x"]).find([]) == []
    assert ShingleIndex([]).find([text]) == [[]]


def test_many_copies_do_not_hide_each_other() -> None:
    text = " ".join(random.Random(4).choices(WORDS, k=100))
    [found] = ShingleIndex([text] * 30).find([text])
    assert found[:8] == list(range(8))


@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared data files")
def test_quiet_on_tinystories_and_finds_their_edited_copies() -> None:
    """No two of these stories share more than a fifth of their rarer word sequences, says their README."""
    held_out = texts("tinystories/validation.jsonl.gz", 500)
    index = ShingleIndex(held_out)
    assert not any(index.find(texts("tinystories/train.jsonl.gz", 2000)))
    words = " ".join(held_out).split()
    draw = random.Random(5)
    copies = [edited(text, 0.1, draw, words) for text in held_out]
    assert index.find(copies) == [[i] for i in range(500)]


@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared data files")
def test_finds_the_stories_that_were_published_twice() -> None:
    """By comparing all pairs of these two files, three pairs have 0.4 or more (0.76, 0.94, 0.997); the
    next has 0.31.
    """
    training, held_out = (
        texts(f"multilingual/stories_{split}.jsonl.gz") for split in ("train", "validation")
    )
    found = [(i, j) for i, near in enumerate(ShingleIndex(held_out).find(training)) for j in near]
    assert sorted(round(jaccard(training[i], held_out[j]), 2) for i, j in found) == [0.76, 0.94, 1.0]
