"""Divergence, and spikes as they come."""

import dataclasses
import math

import pytest

from lab.config.schema import Monitor, Schedule
from lab.train.stability import StabilityMonitor
from tests.tiny_model import tiny


def config():
    return dataclasses.replace(
        tiny(),
        steps=100,
        schedule=Schedule("constant", 0.05, 1.0),
        monitor=Monitor(10, 10, 4.0, divergence_factor=2.0, divergence_patience=3),
    )


def test_events_carry_signal_value_and_score():
    monitor = StabilityMonitor(config(), {})
    events = []
    for step in range(40):
        wobble = 1.0 + 0.1 * (step % 2)
        events += monitor.observe({"train/loss": wobble, "grad/norm": 50.0 if step == 30 else wobble})
    assert [(event.signal, event.value) for event in events] == [("grad/norm", 50.0)]
    assert events[0].score == pytest.approx((50 - 1.05) / 0.05)


def test_divergence_needs_patience_after_warm_up():
    ceiling = 2 * math.log(257)
    monitor = StabilityMonitor(config(), {})
    for _ in range(5 + 2):  # five steps of warm-up, then two of three
        monitor.observe({"train/loss": ceiling + 1, "grad/norm": 1.0})
        assert monitor.divergence() is None
    monitor.observe({"train/loss": ceiling + 1, "grad/norm": 1.0})
    assert "above 11.10 for 3 steps" in monitor.divergence()


def ended_with(*losses):
    monitor = StabilityMonitor(config(), {"train/loss": list(losses)})
    assert monitor.divergence() is None
    return monitor.divergence_at_end()


def test_a_loss_that_ends_above_twice_its_lowest_mean_has_diverged():
    # Windows of three steps, by hand: means 3, 2, 1, 7/3 and 10/3, the first of them after three steps.
    why = ended_with(5.0, 3.0, 1.0, 2.0, 0.0, 5.0, 5.0)
    assert why == "training loss of the last 3 steps is 3.33, above 2 times its lowest of 1.00"
    assert ended_with(1.0, 1.0, 1.0, 2.0, 2.0, 2.0) is None  # twice is not above twice
    assert ended_with(1.0, 1.0, 1.0, 2.0, 2.0, 2.01) is not None


def test_a_loss_that_comes_back_down_or_never_fell_has_not_diverged():
    assert ended_with(4.0, 1.0, 1.0, 1.0, 9.0, 9.0, 1.0, 1.0, 1.0) is None  # a spike that is over
    assert ended_with(5.5, 5.6, 5.5, 5.6, 5.5) is None
    assert ended_with(0.1, 0.1, 9.0) is None and ended_with(0.1, 9.0) is None  # one window, and none
