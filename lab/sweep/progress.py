"""Live progress on a terminal; one line for each run that ends elsewhere."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it brings torch, and bad input is refused before that is needed
    from lab.sweep.local import Progress


@contextmanager
def shown(*, quiet: bool) -> Iterator[Callable[["Progress"], None] | None]:
    """A function to call with the sweep's progress as often as one likes."""
    if quiet:
        yield None
    elif not sys.stderr.isatty():
        yield lines()
    else:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]}"),
        )
        with Bar(*columns, console=Console(stderr=True), refresh_per_second=4) as bar:
            task = bar.add_task("training", total=1.0, left="")
            yield lambda p: bar.update(task, completed=p.done(), description=_runs(p), left=_left(p))


def lines(*, every: float = math.inf) -> Callable[["Progress"], None]:
    """Prints a line when a run has ended, and besides after so many seconds."""
    told, at = -1, time.monotonic()

    def show(progress: "Progress") -> None:
        nonlocal told, at
        ended = sum(progress.share(i) == 1.0 for i in progress.jobs)
        if ended != told or time.monotonic() - at > every:
            told, at = ended, time.monotonic()
            print(
                f"{_runs(progress)}, {progress.done():.0%}{_left(progress) and ', ' + _left(progress)}",
                file=sys.stderr,
                flush=True,
            )

    return show


def _runs(progress: "Progress") -> str:
    return f"{sum(progress.share(i) == 1.0 for i in progress.jobs)}/{len(progress.jobs)} runs"


def _left(progress: "Progress") -> str:
    seconds = progress.seconds_left()
    return "" if seconds is None else f"{int(seconds) // 60}:{int(seconds) % 60:02d} left"


@contextmanager
def preparing() -> Iterator[Callable[[str, float], None]]:
    """A function to call with (stage, share done) while data is prepared."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress as Bar

        with Bar(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=1.0)
            yield lambda stage, share: bar.update(task, description=stage, completed=share)
    else:
        told: set[str] = set()

        def show(stage: str, share: float) -> None:
            name = stage.partition(":")[0]
            if name not in told:
                told.add(name)
                print(name, file=sys.stderr, flush=True)

        yield show
