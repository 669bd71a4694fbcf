"""How does a run look in TensorBoard?

A run is the folder <group>/<arm>-seed<seed>-<id>, so runs sort and filter by ablation and arm, and a
curve's step is `tokens`. TensorBoard has neither run states nor a table of configurations: both stand as
texts, `config` and `final`.

    tensorboard --logdir <folder>
"""

import json
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab.store.run_record import Summary
from lab.track.dashboards import SAMPLE_COLUMNS, Card, final
from lab.track.metrics_tail import StepRow

if TYPE_CHECKING:
    from tensorboard.compat.proto import summary_pb2


def open(card: Card, *, folder: Path, mode: str) -> "TensorboardRun":
    """Begin an event file in the run's folder; the mode is of no use here."""
    return TensorboardRun(card, folder)


class TensorboardRun:
    """A run with an open event file."""

    next_step = None

    def __init__(self, card: Card, folder: Path):
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        name = re.sub(r"[^\w.=+-]+", "_", f"{card.name}-{card.run_id}")
        run_folder = folder / card.group / name
        before = set(run_folder.glob("events.*"))
        self._card, self._tokens = card, 0
        self._writer = EventFileWriter(str(run_folder), flush_secs=5)
        (file,) = set(run_folder.glob("events.*")) - before
        self.segment = str(file.relative_to(folder))
        if not before:
            self._add([_text("config", f"```\n{json.dumps(card.config, indent=1)}\n```")])

    def log(self, row: StepRow) -> None:
        from tensorboard.compat.proto import summary_pb2

        self._tokens = row.tokens
        shown = [summary_pb2.Summary.Value(tag=key, simple_value=value) for key, value in row.values.items()]
        if row.samples:
            shown.append(_text("samples", _table(SAMPLE_COLUMNS, self._card.sample_rows(row.samples))))
        if row.picture:
            image = summary_pb2.Summary.Image(colorspace=3, encoded_image_string=row.picture)
            shown.append(summary_pb2.Summary.Value(tag="layers", image=image))
        self._add(shown)

    def close(self, summary: Summary | None) -> None:
        if summary:
            self._add([_text("final", _table(("key", "value"), final(summary).items()))])
        self._writer.close()

    def _add(self, values: "list[summary_pb2.Summary.Value]") -> None:
        from tensorboard.compat.proto import summary_pb2
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(
            Event(wall_time=time.time(), step=self._tokens, summary=summary_pb2.Summary(value=values))
        )


def _text(tag: str, markdown: str) -> "summary_pb2.Summary.Value":
    from tensorboard.compat.proto import summary_pb2
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING

    text = summary_pb2.SummaryMetadata.PluginData(plugin_name="text")
    return summary_pb2.Summary.Value(
        tag=tag,
        metadata=summary_pb2.SummaryMetadata(plugin_data=text),
        tensor=TensorProto(dtype=DT_STRING, string_val=[markdown.encode()]),
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; a sample's own line breaks and bars don't end a cell."""
    cells = [[re.sub(r"\s+", " ", str(v)).replace("|", "\\|") for v in row] for row in rows]
    return "\n".join("|".join(row) for row in ([*columns], ["---"] * len(columns), *cells))
