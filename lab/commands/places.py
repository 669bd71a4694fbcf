"""Where do results and caches lie? In this repository, or where LAB_RESULTS and LAB_CACHE say.

Read as `places.RESULTS` when it is needed, never imported by name: a test then moves the folders in one
place.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.store.run_store import RunStore

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(os.environ.get("LAB_RESULTS", ROOT / "results"))
CACHE = Path(os.environ.get("LAB_CACHE", ROOT / ".cache"))


def store() -> "RunStore":
    """The run store of these results."""
    from lab.store.run_store import RunStore

    return RunStore(RESULTS / "runs")
