"""The spike rule against numpy on whole series, and the first mover of a made-up run against a count by
hand.
"""

import numpy as np
import pytest

from lab.config.schema import Monitor
from lab.config.strict import plain
from lab.store.curves import RECORD_POINTS, curves
from lab.store.log_line import LogLine
from lab.store.spikes import by_chance, first_mover, spike_score, summarize


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
    assert summary.events == 1
    assert summary.score_k4 == pytest.approx(1 / len(expected))
    assert summary.score_k7 == pytest.approx(1 / len(expected))


def test_a_flat_signal_has_no_spikes_and_a_jump_from_it_is_one():
    assert spike_score([2.0] * 20, window=10, burn_in=0) == 0.0
    assert spike_score([2.0] * 19 + [2.1], window=10, burn_in=0) == 1e6


WINDOW, STEPS = 10, 60
RULE = {"window": WINDOW, "threshold": 4.0}


def series(**jumps):
    """1.1, 0.9, ... of each statistic, so that a window has mean 1 and deviation 0.1, but for its {step:
    value}.
    """
    return {
        name: [at.get(step, 1.1 if step % 2 else 0.9) for step in range(1, STEPS + 1)]
        for name, at in jumps.items()
    }


# The gradient norm spikes at step 30; layer 2's logit rose by 5 deviations two steps before.
JUMPS = {
    "attention/logit_max/0": {50: 1.5},  # long after
    "attention/logit_max/1": {28: 1.45},  # at the same step as layer 2's, by less
    "attention/logit_max/2": {28: 1.5},
    "grad/norm/block_2": {30: 3.0},
    "residual/rms/0": {19: 9.0},  # eleven steps before
    "residual/rms/1": {27: 1.39},  # by 3.9 deviations
    "residual/rms/2": {29: 5.0},  # by more, but later
}


def test_the_first_mover_is_the_statistic_that_rose_first():
    assert first_mover(series(**JUMPS), 30, **RULE) == (2, "attention/logit_max/2")


@pytest.mark.parametrize(
    ("jumps", "found"),
    [
        ({"a": {}}, None),
        ({"a": {19: 9.0}}, None),
        ({"a": {20: 9.0}}, (10, "a")),
        ({"a": {30: 9.0}}, (0, "a")),
        ({"a": {28: 1.41}}, (2, "a")),
        ({"a": {28: 1.39}}, None),
        ({"a": {30: 8.0}, "b": {30: 9.0}}, (0, "b")),
        ({"a": {30: 0.1}}, None),
        ({"a": {28: None}, "b": {29: 9.0}}, (1, "b")),
        ({}, None),
    ],
)
def test_first_movers_by_hand(jumps, found):
    assert first_mover(series(**jumps), 30, **RULE) == found


def test_no_step_without_a_whole_window_before_it_is_looked_at():
    early = series(a={10: 9.0})
    assert first_mover(early, 12, **RULE) is None
    assert first_mover(series(a={11: 9.0}), 12, **RULE) == (1, "a")


def test_the_same_search_before_quiet_steps_by_hand():
    """Of steps 21, 32, 43 and 54 the first two lie within ten steps of the spike at 30; something rose
    before 54 alone.
    """
    found = by_chance(series(**JUMPS), [30], steps=STEPS, **RULE)
    assert found == ((1, 1), (1, 2))
    at_the_spike = by_chance(series(a={30: 9.0}), [30, 31], steps=STEPS, **RULE)
    assert at_the_spike == ((0, 1), (0, 2))  # 31 belongs to the spike at 30


def lines(spikes, **jumps):
    """A metrics.jsonl with every step diagnosed."""
    statistics, steps = series(**jumps), range(1, STEPS + 1)
    return [
        *(LogLine("step", n, 10 * n, {"train/loss": 2.0, "grad/norm": 1.0}) for n in steps),
        *(
            LogLine("diagnostics", n, 10 * n, {name: values[n - 1] for name, values in statistics.items()})
            for n in steps
        ),
        *(
            LogLine("spike", n, 10 * n, {"signal": "grad/norm", "value": 9.0, "score": 5.0 + n})
            for n in spikes
        ),
    ]


def monitor(every):
    return Monitor(every, WINDOW, 4.0, divergence_factor=2.0, divergence_patience=3)


def test_a_record_has_the_first_mover_of_each_spike_it_keeps():
    record = curves(lines([45, 30], **JUMPS), monitor(1))
    assert [spike.step for spike in record.spikes] == [30, 45]
    assert record.first_movers.of == ((2, "attention/logit_max/2"), None)
    assert record.first_movers.spikes == (1, 2)


def test_a_record_of_some_diagnosed_steps_has_none():
    record = curves(lines([30], **JUMPS), monitor(25))
    assert record.first_movers is None and "first_movers" not in plain(record)


def test_first_movers_are_paid_for_in_points():
    """20 spikes with their movers take about as many bytes of a published line as 40 points."""
    many = range(21, 61)
    usual, attributed = (curves(lines(many, **JUMPS), monitor(every)) for every in (25, 1))
    assert len(usual.train) == RECORD_POINTS == 60
    assert len(attributed.first_movers.of) == len(attributed.spikes) == 20
    assert len(attributed.train) <= 41
    assert {spike.step for spike in attributed.spikes} <= {point.step for point in attributed.train}
