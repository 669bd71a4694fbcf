"""Where can one look at a run? Each dashboard is a module here behind the same three calls: wandb, trackio
and tensorboard.

`open(card, folder=, mode=)` shows a run and returns its Board; `log` adds the row of one step, `close`
ends it. Text samples show as a table named `samples`, the picture of the layers as `layers`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

from lab.config.strict import plain
from lab.store.run_record import Summary
from lab.track.metrics_tail import StepRow, TextSample

SAMPLE_COLUMNS = ("arm", "seed", "tokens", "prompt", "text")


@dataclass(frozen=True)
class Card:
    """What a dashboard is told of a run when it opens."""

    run_id: str
    project: str
    group: str  # the ablation
    job_type: str  # the arm
    seed: int
    tags: tuple[str, ...]
    config: Mapping[str, object]  # configuration, counts and provenance, to be shown as they are

    @property
    def name(self) -> str:
        """The run's name for people, not unique: arm and seed."""
        return f"{self.job_type}-seed{self.seed}"

    def sample_rows(self, samples: Iterable[TextSample]) -> list[list[str | int]]:
        """Text samples as rows of SAMPLE_COLUMNS."""
        return [[self.job_type, self.seed, s.tokens, s.prompt, s.text] for s in samples]


def final(summary: Summary) -> dict[str, object]:
    """The summary as `final/<key>`: nested records flattened with slashes, what is null left out."""
    return dict(_leaves("final", plain(summary)))


def _leaves(name: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(f"{name}/{key}", item)
    elif value is not None:
        yield name, value


class Board(Protocol):
    """A run open at a dashboard. What the dashboard's client raises reaches the caller."""

    next_step: int | None  # the first step that the dashboard lacks; None where only the journal knows
    # What a killed follower leaves half written, to be made afresh; relative to the folder.
    segment: str | None

    def log(self, row: StepRow) -> None:
        """Add the row of one step; steps grow."""

    def close(self, summary: Summary | None) -> None:
        """Hand over the rest and wait for it. Without a `summary` the run may go on later."""


def open_run(name: str, card: Card, *, folder: Path, mode: str) -> Board:
    """Show a run at the dashboard of that name, with the client's own files in `folder`."""
    opened: Board = import_module(f"lab.track.{name}").open(card, folder=folder, mode=mode)
    return opened
