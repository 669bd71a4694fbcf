"""Learning-rate factors against hand-computed tables."""

import math

import pytest

from lab.config.schema import Schedule
from lab.train.schedule import factor


def schedule(name, warmup=0.2, final=0.1, decay=0.0):
    return Schedule(name, warmup, final, own={"decay_fraction": decay} if decay else {})


TABLES = [
    (schedule("constant", final=1.0), [0.5, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
    (schedule("linear", final=0.2), [0.5, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]),
    (schedule("wsd", final=0.0, decay=0.4), [0.5, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0.0]),
    (schedule("cosine"), [0.5, 1] + [0.1 + 0.45 * (1 + math.cos(math.pi * i / 8)) for i in range(1, 9)]),
    (schedule("cosine", warmup=0.0, final=0.0), [(1 + math.cos(math.pi * i / 10)) / 2 for i in range(1, 11)]),
]


@pytest.mark.parametrize(
    ("rule", "expected"), TABLES, ids=[f"{s.name}-{s.warmup_fraction}" for s, _ in TABLES]
)
def test_factors_of_ten_steps(rule, expected):
    assert [factor(step, steps=10, schedule=rule) for step in range(1, 11)] == pytest.approx(
        expected, abs=1e-12
    )


def test_the_rate_never_climbs_back_after_the_end():
    assert factor(25, steps=10, schedule=schedule("cosine")) == pytest.approx(0.1)
