"""What does the log of a run say, step by step, while it may still be growing? All lines of metrics.jsonl of
one training step together are a `StepRow`.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from lab.store import log_line
from lab.store.log_line import LogLine


@dataclass(frozen=True)
class TextSample:
    """A text that the model wrote after a prompt, after so many tokens of training."""

    tokens: int
    prompt: str
    text: str


@dataclass(frozen=True)
class StepRow:
    """One training step with its evaluation, diagnostics, spikes and text samples.

    A spike stands in `values` as `spike/<signal>`, its score, and `spike/<signal>/count`, the number of
    spikes of that signal so far. `picture` is a PNG of the layers, in the last row of an ended run alone.
    """

    step: int
    tokens: int
    values: Mapping[str, float]
    samples: tuple[TextSample, ...] = ()
    picture: bytes | None = None


class MetricsTail:
    """The rows of a metrics.jsonl that may still be growing."""

    def __init__(self, path: Path):
        self._path = path
        self._file: BinaryIO | None = None
        self._forget()

    def _forget(self) -> None:
        self._torn = b""
        self._lines: list[LogLine] = []  # of the step that may not be complete
        self._spikes: Counter[str] = Counter()

    def rows(self, *, ended: bool) -> Iterator[StepRow]:
        """The rows completed since the last call; all of them over again once the file is replaced.

        A step is complete once another step's line follows or, with `ended`, where the file ends.
        """
        for line in self._new_lines():
            if self._lines and line.step != self._lines[0].step:
                yield self._completed()
            self._lines.append(line)
        if ended and self._lines:
            yield self._completed()

    def close(self) -> None:
        """Close the file; calling it again does nothing."""
        if self._file:
            self._file.close()

    def _new_lines(self) -> Iterator[LogLine]:
        if not self._path.exists():
            return
        # Resumed training replaces the file. The old one is held open, so the new one can't get its inode.
        if self._file is None or os.fstat(self._file.fileno()).st_ino != self._path.stat().st_ino:
            self.close()
            self._file = open(self._path, "rb")
            self._forget()
        *whole, self._torn = (self._torn + self._file.read()).split(b"\n")
        for text in whole:
            if line := LogLine.from_plain(json.loads(text)):
                yield line

    def _completed(self) -> StepRow:
        lines, self._lines = self._lines, []
        values: dict[str, float] = {}
        samples: list[TextSample] = []
        for line in lines:
            match line:
                case LogLine(kind=log_line.SPIKE, values={"signal": signal, "score": score}):
                    name = f"spike/{signal}"
                    self._spikes[name] += 1
                    values |= {name: score, f"{name}/count": self._spikes[name]}
                case LogLine(kind=log_line.SAMPLE, values={"prompt": prompt, "text": text}):
                    samples.append(TextSample(line.tokens, prompt, text))
                case _:
                    values |= {name: value for name, value in line.values.items() if value is not None}
        return StepRow(lines[0].step, lines[-1].tokens, values, tuple(samples))
