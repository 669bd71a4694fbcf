"""Where can one look at a run? Each dashboard is a module here behind the same three calls.

    wandb.py         Weights & Biases, online or offline
    trackio.py       Trackio, one database in a folder
    tensorboard.py   TensorBoard, event files in a folder
    layers.py        the picture of a run's layers, shown by all three

`open(card, folder=, mode=)` shows a run and returns its Board; `log` adds the row of one step, `close`
ends it. A row's values are numbers, a picture (the bytes of a PNG) or the text samples of the step (a list
of records).
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

SAMPLE_COLUMNS = ("arm", "seed", "tokens", "prompt", "text")


@dataclass(frozen=True)
class Card:
    """What a dashboard is told of a run when it opens."""

    run_id: str
    project: str
    group: str  # the ablation
    job_type: str  # the arm
    seed: int
    tags: list[str]
    config: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.job_type}-seed{self.seed}"

    def sample_rows(self, samples: list[dict[str, Any]]) -> list[list[Any]]:
        """Text samples as rows of SAMPLE_COLUMNS."""
        return [[self.job_type, self.seed, s["tokens"], s["prompt"], s["text"]] for s in samples]


class Board(Protocol):
    """A run open at a dashboard. What the dashboard's client raises reaches the caller."""

    next_step: int | None  # the first step that the dashboard lacks; None where only the journal knows
    segment: (
        str | None
    )  # what a killed follower leaves half written, to be made afresh; relative to the folder

    def log(self, row: dict[str, Any], *, step: int) -> None: ...

    def close(self, summary: dict[str, Any] | None) -> None:
        """Hand over the rest and wait for it. Without a `summary` the run may go on later."""


def open_run(name: str, card: Card, *, folder: Path, mode: str) -> Board:
    """Show a run at one of BOARDS."""
    opened: Board = import_module(f"lab.track.{name}").open(card, folder=folder, mode=mode)
    return opened


def final(summary: dict[str, Any]) -> dict[str, Any]:
    """The summary as `final/<key>`, nested records flattened with slashes, what is null left out."""
    return dict(_leaves("final", summary))


def _leaves(name: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in _leaves(f"{name}/{key}", item)]
    return [] if value is None else [(name, value)]
