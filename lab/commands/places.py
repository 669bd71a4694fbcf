"""Where do results and caches lie? In this repository, or where LAB_RESULTS and LAB_CACHE say.

Read as `places.RESULTS` when it is needed, never imported by name: a test then moves the folders in one
place.
"""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lab.config.strict import ConfigError

if TYPE_CHECKING:
    from lab.store.run_store import RunStore

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(os.environ.get("LAB_RESULTS", ROOT / "results"))
CACHE = Path(os.environ.get("LAB_CACHE", ROOT / ".cache"))


def refuse_unwritable() -> None:
    """Raises ConfigError, before anything is prepared, where results or caches can't be written."""
    problems = []
    for variable, folder in (("LAB_RESULTS", RESULTS), ("LAB_CACHE", CACHE)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"x")
        except OSError as error:
            why = (
                "is a file" if isinstance(error, FileExistsError) else f"can't be written ({error.strerror})"
            )
            problems.append(f"{variable} = {folder}: {why}. Set {variable} to a folder that can be written.")
    if problems:
        raise ConfigError(problems)


def store() -> "RunStore":
    """The run store of these results."""
    from lab.store.run_store import RunStore

    return RunStore(RESULTS / "runs")
