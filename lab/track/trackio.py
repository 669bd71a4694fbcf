"""How does a run look in Trackio?

One database of the project in the folder; a run's name is <arm>-seed<seed>-<id>, its group the ablation.
The x-axis is a choice in the dashboard: take `tokens`. Trackio has no run states and no summary: the last
row holds `final/<key>`, and a run that diverged or failed raises an alert.

    TRACKIO_DIR=<folder> trackio show --project <project>
"""

import io
import os
from collections.abc import Mapping
from pathlib import Path

from lab.store.run_record import Summary
from lab.track.dashboards import SAMPLE_COLUMNS, Card, final
from lab.track.metrics_tail import StepRow


def open(card: Card, *, folder: Path, mode: str) -> "TrackioRun":
    """Show a run in the project's database; one that was there before goes on."""
    for name in [n for n in os.environ if n.startswith("TRACKIO_")]:
        del os.environ[name]  # they could send the run to a server
    os.environ["TRACKIO_DIR"] = str(folder)
    return TrackioRun(card)


class TrackioRun:
    """A run open in Trackio."""

    segment = None

    def __init__(self, card: Card):
        import trackio

        self._card, self._name = card, f"{card.name}-{card.run_id}"
        self._run = trackio.init(
            card.project,
            name=self._name,
            group=card.group,
            config={**card.config, "arm": card.job_type, "tags": list(card.tags)},
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        self.next_step = self._last_step() + 1
        self._held: StepRow | None = None

    def log(self, row: StepRow) -> None:
        self._send_held({})
        self._held = row  # the last row is to hold the end of the run too

    def close(self, summary: Summary | None) -> None:
        import trackio

        last = self._held.step if self._held else 0
        self._send_held(final(summary) if summary else {})
        if summary and summary.state != "finished":
            self._run.alert(f"{self._card.name} {summary.state}", text=summary.reason or "")
        trackio.finish()
        if self._last_step() < last:  # the client only warns
            raise OSError(f"Trackio has no step {last} of run {self._card.run_id}")

    def _send_held(self, end: Mapping[str, object]) -> None:
        if self._held:
            self._run.log({**self._shown(self._held), **end}, step=self._held.step)
            self._held = None

    def _shown(self, row: StepRow) -> dict[str, object]:
        import trackio

        shown: dict[str, object] = {"tokens": row.tokens, **row.values}
        if row.samples:
            rows = self._card.sample_rows(row.samples)
            shown |= {"samples": trackio.Table(columns=list(SAMPLE_COLUMNS), data=rows)}
        if row.picture:
            from PIL import Image

            shown |= {"layers": trackio.Image(Image.open(io.BytesIO(row.picture)))}
        return shown

    def _last_step(self) -> int:
        from trackio.sqlite_storage import SQLiteStorage

        return SQLiteStorage.get_last_step(self._card.project, run=self._name) or 0
