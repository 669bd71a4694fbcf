"""The spike rule against numpy on whole series, and divergence."""

import dataclasses
import math

import numpy as np
import pytest

from lab.config import Monitor as Rule
from lab.config import Schedule
from lab.train.stability import Monitor, spike_score, summarize
from tests.tiny_model import tiny


def scores_by_numpy(values, window, burn_in):
    """(last - mean) / population standard deviation of the window before each eligible step."""
    v, out = np.asarray(values), {}
    for i in range(burn_in + window, len(v)):
        before = v[i - window : i]
        out[i] = (v[i] - before.mean()) / before.std()
    return out


def test_scores_follow_the_definition():
    values = np.random.default_rng(0).lognormal(size=60).tolist()
    expected = scores_by_numpy(values, window=10, burn_in=5)
    for i in range(60):
        score = spike_score(values[: i + 1], window=10, burn_in=5)
        assert (score is None) == (i not in expected)
        if score is not None:
            assert score == pytest.approx(expected[i], rel=1e-9)


def test_the_score_counts_eligible_steps_only():
    values = [1.0, 1.2] * 20 + [9.0] + [1.0, 1.2] * 5
    summary = summarize(values, window=10, burn_in=4, threshold=4.0)
    expected = scores_by_numpy(values, 10, 4)
    assert summary["events"] == 1
    assert summary["score_k4"] == pytest.approx(1 / len(expected))
    assert summary["score_k7"] == pytest.approx(1 / len(expected))


def test_a_flat_signal_has_no_spikes_and_a_jump_from_it_is_one():
    assert spike_score([2.0] * 20, window=10, burn_in=0) == 0.0
    assert spike_score([2.0] * 19 + [2.1], window=10, burn_in=0) == 1e6


def config():
    return dataclasses.replace(
        tiny(),
        steps=100,
        schedule=Schedule("constant", 0.05, 1.0, 0.0),
        monitor=Rule(10, 10, 4.0, divergence_factor=2.0, divergence_patience=3),
    )


def test_events_carry_signal_value_and_score():
    monitor = Monitor(config(), {})
    events = []
    for step in range(40):
        wobble = 1.0 + 0.1 * (step % 2)
        events += monitor.observe({"train/loss": wobble, "grad/norm": 50.0 if step == 30 else wobble})
    assert [(e["signal"], e["value"]) for e in events] == [("grad/norm", 50.0)]
    assert events[0]["score"] == pytest.approx((50 - 1.05) / 0.05)


def test_divergence_needs_patience_after_warm_up():
    ceiling = 2 * math.log(257)
    monitor = Monitor(config(), {})
    for _ in range(5 + 2):  # five steps of warm-up, then two of three
        monitor.observe({"train/loss": ceiling + 1, "grad/norm": 1.0})
        assert monitor.divergence() is None
    monitor.observe({"train/loss": ceiling + 1, "grad/norm": 1.0})
    assert "above 11.10 for 3 steps" in monitor.divergence()
