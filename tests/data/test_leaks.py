"""Leaks: documents in both splits refuse the corpus, near copies leave the training set or are counted."""

import random
from collections.abc import Iterator

import pytest

from lab.config.strict import ConfigError
from lab.data.corpus import Corpus, Document
from lab.data.leaks import Leaks
from lab.data.shard_meta import NearDuplicates
from tests.data.test_near_duplicates import WORDS, edited


def corpus(*, has_floor: bool = False, drops: bool = False) -> Corpus:
    def none(split: str) -> Iterator[Document]:
        yield from ()

    return Corpus("f", "p", has_floor, drops, none)


def named(split: str, texts: list[str]) -> list[Document]:
    return [Document(f"{split}:{i}", text) for i, text in enumerate(texts)]


def stories(seed: int, count: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=80)) for _ in range(count)]


def near(text: str) -> str:
    return edited(text, 0.05, random.Random(9))


def test_shared_documents_are_counted_and_the_first_is_named() -> None:
    validation = named("v", ["a b", "c", "d"])
    training = named("t", ["x", "c", " a\n b", "c "])
    with pytest.raises(ConfigError) as raised:
        list(Leaks(corpus(), validation).separate(iter(training)))
    assert str(raised.value) == (
        "data.validation_path: 2 of 3 validation documents are in the training set too "
        "(first: v:1, the same as t:1). Remove them from one of the two."
    )
    assert list(Leaks(corpus(), validation).separate(iter(training[:1]))) == training[:1]


def test_near_copies_leave_the_training_set_of_a_split_that_is_ours() -> None:
    validation = named("v", stories(0, 20))
    training = named(
        "t", [*stories(1, 20), near(validation[3].text), near(validation[3].text), near(validation[7].text)]
    )
    leaks = Leaks(corpus(drops=True), validation)
    assert list(leaks.separate(iter(training))) == training[:20]
    assert leaks.near_duplicates() == NearDuplicates(
        validation_documents=2, training_documents_dropped=3, first="v:3, nearly t:20"
    )


def test_few_near_copies_in_the_user_s_split_stay_and_are_counted() -> None:
    validation = named("v", stories(0, 100))
    training = named("t", [near(validation[3].text), *stories(1, 5)])
    leaks = Leaks(corpus(), validation)
    assert list(leaks.separate(iter(training))) == training
    assert leaks.near_duplicates().validation_documents == 1
    with pytest.raises(ConfigError) as raised:
        list(
            Leaks(corpus(), validation).separate(iter([*training, Document("t:6", near(validation[9].text))]))
        )
    assert str(raised.value) == (
        "data.validation_path: 2 of 100 validation documents are nearly in the training set too, at a "
        "similarity of 0.4 or more (first: v:3, nearly t:0). Remove them from one of the two."
    )


def test_a_corpus_of_near_copies_cannot_be_held_out() -> None:
    validation = named("v", stories(0, 4))
    training = named("t", [*(near(document.text) for document in validation), *stories(1, 3)])
    with pytest.raises(
        ConfigError, match=r"data.path: 4 of 7 training documents nearly equal one held out \(first: v:0"
    ):
        list(Leaks(corpus(drops=True), validation).separate(iter(training)))


def test_stories_may_be_alike_but_not_the_same() -> None:
    validation = named("v", stories(0, 4))
    training = named("t", [near(document.text) for document in validation])
    leaks = Leaks(corpus(has_floor=True), validation)
    assert list(leaks.separate(iter(training))) == training
    assert leaks.near_duplicates().validation_documents == 0
    with pytest.raises(
        ConfigError, match="data.grammar: 1 of 4 validation documents are in the training set too"
    ):
        list(Leaks(corpus(has_floor=True), validation).separate(iter([*training, validation[2]])))


def test_nothing_at_all_passes() -> None:
    for kinds in (corpus(), corpus(drops=True), corpus(has_floor=True)):
        assert list(Leaks(kinds, named("v", ["a"])).separate(iter(()))) == []
