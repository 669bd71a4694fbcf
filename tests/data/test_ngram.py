"""The n-gram baseline against a dictionary implementation written from the formula, and on real text."""

import json
import math
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from lab.config.schema import Data, Vocab
from lab.data import ngram
from lab.data.evaluation import evaluation_batches
from lab.data.ngram import baseline, baselines, witten_bell
from lab.data.prepare import prepare
from lab.data.shards import Shards
from tests import paths
from tests.hand_shards import write_shards
from tests.tiny_run import GRAMMAR

SHARED = paths.SHARED / "data" / "tinystories"
VOCAB = 7


def stream(documents: list[list[int]]) -> np.ndarray:
    return np.array([0, *(token for document in documents for token in (*document, 0))], dtype=np.uint16)


def documents(seed: int, count: int) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [generator.integers(1, VOCAB - 1, size=generator.integers(1, 9)).tolist() for _ in range(count)]


class Dictionaries:
    """Witten-Bell straight from the formula, one document at a time."""

    def __init__(self, training: list[list[int]], order: int) -> None:
        self.counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        self.order = order
        for document in training:
            tokens = [0, *document, 0]
            for i in range(1, len(tokens)):
                for length in range(min(order - 1, i) + 1):
                    self.counts[tuple(tokens[i - length : i])][tokens[i]] += 1

    def probability(self, history: list[int], token: int) -> float:
        p = 1 / VOCAB
        for length in range(min(self.order - 1, len(history)) + 1):
            followers = self.counts.get(tuple(history[len(history) - length :]))
            if followers:
                total, distinct = sum(followers.values()), len(followers)
                p = (followers[token] + distinct * p) / (total + distinct)
        return p


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_equals_the_dictionary_implementation(order: int) -> None:
    training, held_out = documents(1, 40), [*documents(2, 10), [VOCAB - 1, 1, VOCAB - 1]]
    model = Dictionaries(training, order)
    expected = []
    for document in held_out:
        tokens = [0, *document, 0]
        expected += [-math.log(model.probability(tokens[:i], tokens[i])) for i in range(1, len(tokens))]
    nats = witten_bell(stream(training), stream(held_out), order=order, vocab_size=VOCAB)
    np.testing.assert_allclose(nats[order - 1], expected, rtol=1e-12)


def test_probabilities_sum_to_one() -> None:
    training = documents(3, 30)
    last = []
    for token in range(1, VOCAB):
        nats = witten_bell(stream(training), stream([[2, 1, token]]), order=4, vocab_size=VOCAB)
        last.append(np.exp(-nats[:, 2]))
    closing = witten_bell(stream(training), stream([[2, 1]]), order=4, vocab_size=VOCAB)
    np.testing.assert_allclose(sum(last) + np.exp(-closing[:, 2]), np.ones(4), rtol=1e-12)


@pytest.fixture
def small(tmp_path: Path) -> Shards:
    """Ten ids, id n of n bytes. Predicted in training: 0 twice, and 1, 2, 3."""
    return Shards.open(write_shards(tmp_path / "s", [[1, 2], [3]], [[1], [3, 2], [9, 9]]))


# Unigrams: (count + 4 kinds / 10 ids) / (5 tokens + 4 kinds).
ONCE, TWICE, NEVER = -math.log(1.4 / 9), -math.log(2.4 / 9), -math.log(0.4 / 9)


@pytest.mark.parametrize(
    ("asked", "nats", "tokens", "text_bytes"),
    [
        (1, ONCE + TWICE, 2, 1),
        (2, 3 * ONCE + 2 * TWICE, 5, 6),
        (None, 3 * ONCE + 3 * TWICE + 2 * NEVER, 8, 24),
        (3, 3 * ONCE + 3 * TWICE + 2 * NEVER, 8, 24),
        (99, 3 * ONCE + 3 * TWICE + 2 * NEVER, 8, 24),
    ],
)
def test_counts_only_the_text_that_models_are_scored_on(
    small: Shards, asked: int | None, nats: float, tokens: int, text_bytes: int
) -> None:
    [line] = baseline(small, orders=[1], documents=asked, context_length=8)
    assert line.nats_per_token == pytest.approx(nats / tokens)
    assert line.bpb == pytest.approx(nats / math.log(2) / text_bytes)
    batches = evaluation_batches(small, 3, documents=asked or 3, rows=2)
    assert sum(int(batch.scored.sum()) for batch in batches) == tokens
    assert sum(batch.bytes.sum() for batch in batches) == text_bytes


def test_counted_once_for_each_text_and_anew_when_the_counting_changes(small: Shards) -> None:
    unigram = baselines(small.path, documents=1, context_length=8)[0]
    assert unigram.nats_per_token == pytest.approx((ONCE + TWICE) / 2)
    assert baselines(small.path, documents=2, context_length=8)[0] != unigram
    file = small.path / "ngram-1-8.json"
    kept = json.loads(file.read_text())
    file.write_text(json.dumps(kept | {"baselines": []}))
    assert baselines(small.path, documents=1, context_length=8) == []  # read, not counted
    file.write_text(json.dumps({"version": kept["version"] - 1, "baselines": []}))
    assert baselines(small.path, documents=1, context_length=8)[0] == unigram


def test_of_a_large_corpus_the_first_documents_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training, held_out = [[1, 2], [3], [4, 5], [6]], [[1], [3, 2], [9, 9]]
    whole = Shards.open(write_shards(tmp_path / "whole", training, held_out))
    # After each document 4, 6, 9 and 11 tokens have been counted.
    for most, documents in ((11, 4), (10, 3), (9, 3), (8, 2), (6, 2), (5, 1), (4, 1), (1, 1)):
        monkeypatch.setattr(ngram, "MOST_TOKENS", most)
        lines = baseline(whole, orders=[1, 2], documents=None, context_length=8)
        monkeypatch.setattr(ngram, "MOST_TOKENS", 100)
        part = Shards.open(write_shards(tmp_path / f"{most}", training[:documents], held_out))
        assert lines == baseline(part, orders=[1, 2], documents=None, context_length=8)
        assert lines[0].counted_tokens == part.train_tokens


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared TinyStories files")
def test_reference_values_on_tinystories(tmp_path: Path) -> None:
    """Independent measurements on the same files: 2.63, 1.54, 1.20, 1.15 bits/byte at 1,024 tokens."""
    data = Data("tinystories", str(SHARED), None, 0.05, "text", 0, 0, 0, GRAMMAR)
    shards = Shards.open(prepare(data, Vocab("bpe", 1024), cache=tmp_path, progress=None))
    measured = [line.bpb for line in baseline(shards, orders=range(1, 5), documents=None, context_length=256)]
    np.testing.assert_allclose(measured, [2.63, 1.54, 1.20, 1.15], atol=0.006)
