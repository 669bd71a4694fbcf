"""What does a dashboard have of each run for certain? A file beside the dashboard's own, so that nothing is
sent twice and nothing is left out.
"""

from dataclasses import dataclass
from pathlib import Path

from lab.config.strict import plain, read
from lab.store.files import dumps, read_record, write_atomic


@dataclass(frozen=True)
class Mirrored:
    """What a dashboard has of one run."""

    step: int = 0  # the last one in a segment that was closed
    state: str | None = None  # the end state that it shows
    # The client's file or folder that is open, or was left open by a killed follower, from the mirror's.
    segment: str | None = None


class Journal:
    """What is mirrored of each run in each mode of the client, as JSON: {run id: {mode: Mirrored}}.

    Raises ConfigError where the file is damaged.
    """

    def __init__(self, path: Path):
        self._path = path
        self._runs: dict[str, dict[str, Mirrored]] = {}
        fix = f"Remove {path.parent} to mirror all runs again."
        for run_id, modes in read_record(path, fix=fix).items() if path.exists() else ():
            self._runs[run_id] = {
                mode: read(Mirrored, entry, source=f"{path}: {run_id} {mode}", fix=fix)
                for mode, entry in modes.items()
            }

    def of(self, run_id: str, mode: str) -> Mirrored:
        """What is mirrored of a run; nothing before its first entry."""
        return self._runs.get(run_id, {}).get(mode, Mirrored())

    def enter(self, run_id: str, mode: str, entry: Mirrored) -> None:
        """Note what is mirrored of a run, in the file too."""
        self._runs.setdefault(run_id, {})[mode] = entry
        write_atomic(self._path, dumps(plain(self._runs), indent=1))
