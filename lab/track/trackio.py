"""How does a run look in Trackio?

One database of the project in the folder; a run's name is <arm>-seed<seed>-<id>, its group the ablation.
The x-axis is a choice in the dashboard: take `tokens`. Trackio has no run states and no summary: the last
row holds `final/<key>`, and a run that diverged or failed raises an alert.

    TRACKIO_DIR=<folder> trackio show --project <project>
"""

import io
import os
from pathlib import Path
from typing import Any

from lab.track.dashboards import SAMPLE_COLUMNS, Card, final


def open(card: Card, *, folder: Path, mode: str) -> "_Run":
    for name in [n for n in os.environ if n.startswith("TRACKIO_")]:
        del os.environ[name]  # they could send the run to a server
    os.environ["TRACKIO_DIR"] = str(folder)
    return _Run(card)


class _Run:
    segment = None

    def __init__(self, card: Card):
        import trackio

        self._card, self._name = card, f"{card.name}-{card.run_id}"
        self._run = trackio.init(
            card.project,
            name=self._name,
            group=card.group,
            config={**card.config, "arm": card.job_type, "tags": card.tags},
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        self.next_step = self._last_step() + 1
        self._held: tuple[int, dict[str, Any]] | None = None

    def log(self, row: dict[str, Any], *, step: int) -> None:
        self._send_held({})
        self._held = step, row  # the last row is to hold the end of the run too

    def close(self, summary: dict[str, Any] | None) -> None:
        import trackio

        last = self._held[0] if self._held else 0
        self._send_held(final(summary) if summary else {})
        if summary and summary["state"] != "finished":
            self._run.alert(f"{self._card.name} {summary['state']}", text=summary["reason"] or "")
        trackio.finish()
        if self._last_step() < last:  # the client only warns
            raise OSError(f"Trackio has no step {last} of run {self._card.run_id}")

    def _send_held(self, end: dict[str, Any]) -> None:
        if self._held:
            step, row = self._held
            self._run.log({key: self._shown(value) for key, value in {**row, **end}.items()}, step=step)
            self._held = None

    def _shown(self, value: Any) -> Any:
        import trackio

        if isinstance(value, bytes):
            from PIL import Image

            return trackio.Image(Image.open(io.BytesIO(value)))
        if isinstance(value, list):
            return trackio.Table(columns=list(SAMPLE_COLUMNS), data=self._card.sample_rows(value))
        return value

    def _last_step(self) -> int:
        from trackio.sqlite_storage import SQLiteStorage

        return SQLiteStorage.get_last_step(self._card.project, run=self._name) or 0
