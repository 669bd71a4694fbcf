"""One line of a run's metrics.jsonl: a training step, a spike, diagnostics, an evaluation or a text
sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

STEP, SPIKE, DIAGNOSTICS, EVALUATION, SAMPLE = "step", "spike", "diagnostics", "evaluation", "sample"


@dataclass(frozen=True)
class LogLine:
    """What was logged at a step, after so many tokens; `values` by their names, such as "train/loss"."""

    kind: str
    step: int
    tokens: int
    values: dict[str, Any]

    @classmethod
    def from_plain(cls, line: Any) -> LogLine | None:
        """None for what is no line of a log, as a torn last line is."""
        if not isinstance(line, dict) or not {"kind", "step", "tokens"} <= line.keys():
            return None
        rest = dict(line)
        return cls(rest.pop("kind"), rest.pop("step"), rest.pop("tokens"), rest)

    def to_plain(self) -> dict[str, Any]:
        return {"kind": self.kind, "step": self.step, "tokens": self.tokens, **self.values}

    def number(self, name: str) -> float | None:
        """One value; None where it was not finite, or is not there."""
        return self.values.get(name)
