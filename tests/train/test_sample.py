"""Sampled texts follow the model's probabilities, end where it ends them, and decode to what was drawn."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lab.data.shards import Shards
from lab.train.continuation import TEMPERATURE, continued, samples, text_of
from tests.hand_shards import write_shards

VOCABULARY = [b"", b"a", "é".encode()[:1], "é".encode()[1:], b" b"]


class Fixed(torch.nn.Module):
    """The same next-token logits everywhere."""

    context_length = 64

    def __init__(self, logits: list[float]):
        super().__init__()
        self.values = torch.tensor(logits)

    def forward(self, tokens: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=self.values.expand(*tokens.shape, len(self.values)))


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    return Shards.open(write_shards(tmp_path / "s", [[1]], [[1] * 20, [1, 2, 3] * 9], vocabulary=VOCABULARY))


def test_draws_follow_the_tempered_softmax() -> None:
    probabilities = torch.tensor([0.1, 0.2, 0.3, 0.4])
    model = Fixed((probabilities.log() * TEMPERATURE).tolist())
    rows = torch.ones(8000, 1, dtype=torch.int64)
    drawn = continued(model, rows, length=2, generator=torch.Generator().manual_seed(0))[:, 1]
    expected = probabilities.numpy() * 8000
    chi_square = ((np.bincount(drawn, minlength=4) - expected) ** 2 / expected).sum()
    assert chi_square < 16.3  # the 99.9 % point at 3 degrees of freedom


def test_a_row_that_has_ended_stays_ended() -> None:
    rows = continued(
        Fixed([0.0, 0.0]),
        torch.ones(50, 1, dtype=torch.int64),
        length=9,
        generator=torch.Generator().manual_seed(0),
    )
    for row in rows.tolist():
        ended = row.index(0) if 0 in row else len(row)
        assert not any(row[ended:])


def test_text_stops_at_the_end_and_drops_half_a_character(shards: Shards) -> None:
    assert text_of([0, 1, 2, 3, 4], shards.vocabulary) == "aé b"
    assert text_of([1, 4, 0, 1], shards.vocabulary) == "a b"
    assert text_of([1, 2], shards.vocabulary) == "a"


def test_samples_continue_the_first_documents(shards: Shards) -> None:
    written = samples(Fixed([-50.0, 50.0, -50.0, -50.0, -50.0]), shards, count=2, seed=0, device="cpu")
    assert [sample["prompt"] for sample in written] == ["a" * 11, "aéaéaéa"]
    assert all(set(sample["text"]) == {"a"} and len(sample["text"]) == 52 for sample in written)
