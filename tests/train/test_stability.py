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
