"""How often is the direction of an effect wrong, and how often is one that lasts recognised?

Made-up experiments over five horizons, judged by the very code that judges runs. Each seed has a part that
its trunk carries through all horizons and one of its own at each; the paired difference at a horizon has a
standard deviation of 1 ("sd" below). Half of its variance is the trunk's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from lab.verdict.direction import BUDGET_BOUND, PERSISTS, Path, direction

HORIZONS, SEEDS, SD = 5, 8, 0.005
TRUNK_SHARE = 0.5


@dataclass(frozen=True)
class Course:
    """A true effect at each horizon, in sd of the paired difference, and the name that is looked for."""

    name: str
    effects: tuple[float, ...]
    looked_for: str
    wrong: bool


def courses() -> list[Course]:
    """Effects for which a name would be wrong, and constant ones that persist."""
    level = (0.0,) * HORIZONS
    found = [
        Course(
            "persists where nothing is left at the last horizon", (8.0, 6.0, 4.0, 2.0, 0.0), PERSISTS, True
        ),
        Course("persists where there never was an effect", level, PERSISTS, True),
        Course(
            "persists where the line reaches 0 three doublings on", (7.0, 6.0, 5.0, 4.0, 3.0), PERSISTS, True
        ),
        Course(
            "persists where a large one reaches 0 three doublings on",
            (35.0, 30.0, 25.0, 20.0, 15.0),
            PERSISTS,
            True,
        ),
        Course("budget-bound where there never was an effect", level, BUDGET_BOUND, True),
        Course("budget-bound where one of 2 sd holds", (2.0,) * HORIZONS, BUDGET_BOUND, True),
        Course("budget-bound where one vanishes", (4.0, 2.0, 0.0, 0.0, 0.0), BUDGET_BOUND, True),
    ]
    for size in (1.0, 2.0, 4.0):
        found.append(Course(f"persists where one of {size:g} sd holds", (size,) * HORIZONS, PERSISTS, False))
    found.append(
        Course("budget-bound where 4 sd turn into -4", (4.0, 2.0, 0.0, -2.0, -4.0), BUDGET_BOUND, False)
    )
    return found


def share(course: Course, *, experiments: int, seed: int) -> float:
    """How often so many made-up experiments get the name that is looked for."""
    chance = random.Random(f"{seed} {course.name}")
    return sum(_name(course.effects, chance) == course.looked_for for _ in range(experiments)) / experiments


def table(*, experiments: int, seed: int) -> str:
    """Markdown."""
    lines = ["| direction, 8 seeds | should be | is |", "| --- | ---: | ---: |"]
    for course in courses():
        bar = "at most 5 %" if course.wrong else "often"
        found = share(course, experiments=experiments, seed=seed)
        lines.append(f"| {course.name} | {bar} | {100 * found:.1f} % |")
    return "\n".join(lines) + "\n"


def _name(effects: Sequence[float], chance: random.Random) -> str:
    trunk, own = TRUNK_SHARE**0.5, (1 - TRUNK_SHARE) ** 0.5
    carried = [chance.gauss(0, trunk) for _ in range(SEEDS)]
    differences = tuple(
        tuple(SD * (effect + part + chance.gauss(0, own)) for part in carried) for effect in effects
    )
    tokens = tuple(2**k for k in range(len(effects)))
    return direction(Path("a", "b", tokens, differences, None)).name
