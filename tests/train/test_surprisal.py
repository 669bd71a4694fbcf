"""What predictions cost, against torch's distributions in float64."""

import numpy as np
import pytest
import torch
from torch.distributions import Categorical

from lab.train.surprisal import TOGETHER, end_nats, surprisal

ROWS, LENGTH, VOCAB = 3, TOGETHER // 2 + 7, 50  # more predictions than are computed together
STARTS = torch.arange(VOCAB) % 4 == 1


def drawn(scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = scale * torch.randn(ROWS, LENGTH, VOCAB, generator=generator)
    return logits, torch.randint(VOCAB, (ROWS, LENGTH), generator=generator)


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 3000.0])
def test_costs_are_those_of_float64_distributions(scale):
    logits, targets = drawn(scale)
    found, predicted = surprisal(logits, targets, STARTS), Categorical(logits=logits.double())
    assert found.token == pytest.approx(-predicted.log_prob(targets).numpy(), rel=1e-5, abs=1e-5)
    assert found.entropy == pytest.approx(predicted.entropy().numpy(), rel=1e-5, abs=1e-5)
    ends = -predicted.logits[..., STARTS].logsumexp(-1)  # of thousands of nats at the largest scale
    assert found.end == pytest.approx(ends.numpy(), rel=1e-5, abs=1e-5)
    assert end_nats(logits[0], STARTS).numpy() == pytest.approx(ends[0].numpy(), rel=1e-5, abs=1e-5)
    assert all(values.dtype == np.float64 and values.shape == (ROWS, LENGTH) for values in found)


def test_short_logits_are_summed_in_float32_and_left_as_they_were():
    logits, targets = drawn(3.0)
    short = logits.bfloat16()
    kept = short.clone()
    assert np.array_equal(surprisal(short, targets, STARTS), surprisal(short.float(), targets, STARTS))
    whole = logits.clone()
    surprisal(logits, targets, STARTS)
    assert torch.equal(short, kept) and torch.equal(logits, whole)


def test_a_logit_that_is_no_number_makes_its_own_prediction_none():
    logits, targets = drawn(1.0)
    logits[1, 2, 3] = float("nan")
    for values in surprisal(logits, targets, STARTS):
        assert np.argwhere(np.isnan(values)).tolist() == [[1, 2]]
