"""A run that has seen the validation text says so: below the entropy of the corpus there is nothing to
learn honestly.
"""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from lab.config import schema as c
from lab.data.prepare import prepare
from lab.data.shards import Shards
from lab.store.run_record import Summary
from lab.store.run_store import RunStore
from lab.train.loop import train
from tests.tiny_run import DATA, SHAPE, manifest, tiny_run

pytestmark = pytest.mark.slow

STORIES, LEAKED, CONTEXT = 1000, 6, 64


def summary_of(shards: Shards, folder: Path) -> Summary:
    """Train on few rows often enough to know them by heart, and evaluate on every validation story."""
    run = tiny_run(
        shape=dataclasses.replace(SHAPE, context_length=CONTEXT),
        evaluation=c.Evaluation(points=1, documents=STORIES, rows=100, choices=0, samples=0, lengths=[]),
        steps=150,
    )
    store = RunStore(folder)
    with store.lease("r"):
        store.begin("r", run, manifest("r"))
        train(run, shards, store, "r", device="cpu", checkpoint_seconds=1e9)
    return store.summary("r")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    data = dataclasses.replace(DATA, stories=8, validation_stories=STORIES)
    cache = tmp_path_factory.mktemp("cache")
    return prepare(data, c.Vocab("bytes", 257), cache=cache, progress=None)


def test_no_honest_run_is_below_the_floor(folder: Path, tmp_path: Path) -> None:
    summary = summary_of(Shards.open(folder), tmp_path)
    assert summary.warning is None
    assert summary.measured["val/excess_bpb"] > -3 * summary.measured["val/excess_error"]


def test_a_planted_leak_is_told(folder: Path, tmp_path: Path) -> None:
    shards = Shards.open(folder)
    shards.validation_documents = shards.validation_documents[:LEAKED]
    shards.validation_stream = shards.validation_stream[: shards.validation_documents[-1] + CONTEXT]
    openings = [shards.validation_stream[start : start + CONTEXT] for start in shards.validation_documents]
    shards.train_stream = np.concatenate([*openings, [0]])
    shards.train_documents = np.arange(LEAKED) * CONTEXT
    shards.train_tokens = len(shards.train_stream)
    summary = summary_of(shards, tmp_path)
    assert summary.measured["val/excess_bpb"] < 0
    assert "leaked into training" in summary.warning
