"""Which values may a tuned key take? One key and its range, as it is written on the command line.

    optimizer.lr=log:1e-4:3e-2            any number between, evenly on a logarithmic scale
    regularization.dropout=lin:0:0.3      any number between, evenly
    size.num_layers=int:2:8               a whole number, both ends included
    size.d_model=step:32:128:32           32, 64, 96 or 128

A grid takes POINTS values of each, or as many as a fourth part says: log:1e-4:3e-2:7; of steps, all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.config.strict import ConfigError

KINDS = ("log", "lin", "int", "step")
POINTS = 5
DIGITS = 6  # of a number, so that a run has one name whoever suggests its value


@dataclass(frozen=True)
class Range:
    """`kind` between `low` and `high`; `points` for a grid; `step` from one whole number to the next."""

    key: str
    kind: str
    low: float
    high: float
    points: int = POINTS
    step: int = 1

    @property
    def whole(self) -> bool:
        return self.kind in ("int", "step")

    def distribution(self) -> Any:
        """Optuna's form of it."""
        from optuna.distributions import FloatDistribution, IntDistribution

        if self.whole:
            return IntDistribution(int(self.low), int(self.high), step=self.step)
        return FloatDistribution(self.low, self.high, log=self.kind == "log")

    def grid(self) -> list[float]:
        """Evenly spaced values with both ends; whole numbers each once."""
        if self.kind == "step":
            return list(range(int(self.low), int(self.high) + 1, self.step))
        if self.points == 1:
            return [self.low]
        shares = [k / (self.points - 1) for k in range(self.points)]
        if self.kind == "int":
            return list(dict.fromkeys(round(self.low + (self.high - self.low) * share) for share in shares))
        return [self.at(share) for share in shares]

    def at(self, share: float) -> float:
        """The value at a share of the range, 0 to 1."""
        if self.whole:
            count = int(self.high - self.low) // self.step + 1
            return int(self.low) + self.step * min(count - 1, math.floor(share * count))
        if self.kind == "log":
            return float(f"{self.low * (self.high / self.low) ** share:.{DIGITS}g}")
        return float(f"{self.low + share * (self.high - self.low):.{DIGITS}g}")

    def override(self, value: float) -> str:
        """The value as an override of the configuration."""
        return f"{self.key}={round(value) if self.whole else f'{value:.{DIGITS}g}'}"

    def json(self) -> list[Any]:
        return [self.key, self.kind, self.low, self.high, *([self.step] if self.kind == "step" else [])]


def parsed(texts: Sequence[str]) -> tuple[list[Range], list[str]]:
    """The ranges among KEY=VALUE texts, and the rest as plain overrides. Raises ConfigError with every
    problem.
    """
    ranges, rest, problems = [], [], []
    for text in texts:
        key, _, value = text.partition("=")
        kind, *numbers = value.split(":")
        if kind not in KINDS or not numbers:
            rest.append(text)
            continue
        try:
            ranges.append(_range(key, kind, numbers))
        except ValueError as error:
            problems.append(f"{text} (command line): {error} Write {_form(key, kind)}.")
    keys = [found.key for found in ranges]
    problems += [f"{key}: has two ranges. Keep one." for key in sorted(set(keys)) if keys.count(key) > 1]
    if not ranges and not problems:
        problems.append("no key has a range to search. Write one as optimizer.lr=log:1e-4:3e-2.")
    if problems:
        raise ConfigError(problems)
    return ranges, rest


def _form(key: str, kind: str) -> str:
    if kind == "step":
        return f"{key}=step:LOW:HIGH:STEP"
    return f"{key}={kind}:LOW:HIGH or {key}={kind}:LOW:HIGH:POINTS"


def _range(key: str, kind: str, numbers: Sequence[str]) -> Range:
    """Raises ValueError with what is wrong."""
    if kind == "step" and len(numbers) != 3:
        raise ValueError("needs two ends and a step.")
    if len(numbers) not in (2, 3):
        raise ValueError("needs two ends.")
    try:
        low, high = float(numbers[0]), float(numbers[1])
        last = int(numbers[2]) if len(numbers) == 3 else POINTS
    except ValueError:
        raise ValueError("has an end that is not a number.") from None
    if not (math.isfinite(low) and math.isfinite(high)) or low >= high:
        raise ValueError("the lower end must be below the upper one.")
    if kind == "log" and low <= 0:
        raise ValueError("a logarithmic range must start above 0.")
    if kind in ("int", "step") and not (low.is_integer() and high.is_integer()):
        raise ValueError("needs whole numbers.")
    if last < 1:
        raise ValueError(f"needs {'a step' if kind == 'step' else '1 point'} or more.")
    if kind == "step":
        if (high - low) % last:
            raise ValueError(f"no number of steps of {last} leads from {low:g} to {high:g}.")
        return Range(key, kind, low, high, step=last)
    found = Range(key, kind, low, high, last)
    if found.override(low) == found.override(high):
        raise ValueError(f"both ends are {found.override(low).partition('=')[2]} to {DIGITS} digits.")
    return found
