"""How does the learning rate move over a run? A pure function of the step, so a resumed run can't drift.

Contract: a variant is a function of the progress after a linear warm-up, 0 to 1, of the schedule and, by
keyword, of what its YAML states beside the shared keys; its value is a fraction of the peak.
- cosine: half a period (Loshchilov & Hutter 2017, 1608.03983, section 3, without restarts).
- linear: a straight line.
- constant: the peak.
- wsd: warm-up, stable, linear decay (Hu et al. 2024, 2404.06395, section 4).
"""

import math
from collections.abc import Callable

from lab.config.schema import Schedule


def cosine(progress: float, schedule: Schedule) -> float:
    return schedule.final_fraction + (1 - schedule.final_fraction) * 0.5 * (1 + math.cos(math.pi * progress))


def linear(progress: float, schedule: Schedule) -> float:
    return 1 - (1 - schedule.final_fraction) * progress


def constant(progress: float, schedule: Schedule) -> float:
    return 1.0


def wsd(progress: float, schedule: Schedule, *, decay_fraction: float) -> float:
    """decay_fraction: the length of the decay, as a fraction of all steps."""
    share = decay_fraction / (1 - schedule.warmup_fraction)
    decayed = max(0.0, 1 - (1 - progress) / share)
    return 1 - (1 - schedule.final_fraction) * decayed


VARIANTS: dict[str, Callable[..., float]] = {
    "cosine": cosine,
    "linear": linear,
    "constant": constant,
    "wsd": wsd,
}


def warmup_steps(steps: int, schedule: Schedule) -> int:
    return round(steps * schedule.warmup_fraction)


def factor(step: int, *, steps: int, schedule: Schedule) -> float:
    """Learning rate of optimizer step `step` (1 ... steps) as a fraction of the peak; the last step
    reaches the final fraction.
    """
    warmup = warmup_steps(steps, schedule)
    if step <= warmup:
        return step / warmup
    progress = min(1.0, (step - warmup) / (steps - warmup))
    return VARIANTS[schedule.name](progress, schedule, **schedule.own)
