"""Do Trackio and TensorBoard hold every step of a run once, by their own readers? And is the picture of
the layers right?
"""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lab.config.compose import Override, compose
from lab.config.strict import ConfigError
from lab.store.log_line import LogLine
from lab.store.run_store import RunStore
from lab.track import follower as tracker
from lab.track import layers
from lab.track.backlog import sync
from tests import tracked_run
from tests.tracked_run import MARKERS, RUN, SUMMARY, end_run, row_of, write_run

ambient = tracked_run.ambient
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ambient")]
OTHER = "a" * 12
END: dict[str, Any] = {**SUMMARY, "state": "diverged", "reason": "loss | gone"}
Rows = dict[int, dict[str, Any]]  # step -> row


def mirror(board: str, root: Path, folder: Path, *run_ids: str) -> None:
    pytest.importorskip(
        board, reason=f"the package {board} is not installed; see pyproject.toml, extra {board}"
    )
    follower = tracker.start(root, folder, run_ids, board=board, project="ablation-lab", mode="auto")
    assert follower is not None
    follower.close(timeout=60)


def read_tensorboard(folder: Path, run_id: str) -> Rows:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (path,) = folder.glob(f"ffn-ratio/*-{run_id}")
    events = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0, "images": 0}).Reload()
    rows: Rows = {}
    for tag in events.Tags()["scalars"]:
        for event in events.Scalars(tag):
            row = rows.setdefault(event.step // 1000, {"tokens": event.step})
            assert tag not in row, f"{tag} twice at {event.step} tokens"
            row[tag] = pytest.approx(event.value, rel=1e-6)  # single precision
    for tag in ("samples", "final"):
        for event in events.Tensors(tag) if tag in events.Tags()["tensors"] else ():
            rows[event.step // 1000][tag] = event.tensor_proto.string_val[0].decode()
    for event in events.Images("layers") if "layers" in events.Tags()["images"] else ():
        rows[event.step // 1000]["layers"] = event.encoded_image_string[:4]
    return rows


def read_trackio(folder: Path, run_id: str) -> Rows:
    """By Trackio's own reader, in a process of its own: it takes its folder from the environment once."""
    code = (
        "import json, sys; from trackio.sqlite_storage import SQLiteStorage as s; "
        "print(json.dumps([s.get_logs('ablation-lab', sys.argv[1]), s.get_alerts('ablation-lab')]))"
    )
    name = f"plain_x4-seed2-{run_id}"
    answer = subprocess.run(
        [sys.executable, "-c", code, name],
        env=os.environ | {"TRACKIO_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    logs, alerts = json.loads(answer.stdout.splitlines()[-1])
    rows: Rows = {}
    for log in logs:
        assert log["step"] not in rows, f"step {log['step']} twice"
        rows[log["step"]] = {k: v for k, v in log.items() if k not in ("step", "timestamp")}
    for alert in alerts:
        if alert["run"] == name:
            rows[alert["step"]]["alert"] = alert["title"], alert["text"]
    return rows


READERS = {"tensorboard": read_tensorboard, "trackio": read_trackio}


@pytest.mark.parametrize("board", READERS)
def test_a_resumed_run_reads_back_whole(tmp_path: Path, board: str) -> None:
    root, folder = tmp_path / "runs", tmp_path / board
    write_run(root, steps=range(1, 13))
    write_run(root, steps=range(1, 11), summary=SUMMARY, run_id=OTHER)
    mirror(board, root, folder, RUN, OTHER)
    RunStore(root).open_metrics(RUN, after=8).close()
    write_run(root, steps=range(9, 21))
    line = {"kind": "sample", "step": 20, "tokens": 20000, "prompt": "Mia | x", "text": "ran\nhome"}
    with open(root / RUN / "metrics.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")
    end_run(root, END)
    mirror(board, root, folder, RUN, OTHER)
    mirror(board, root, folder, RUN, OTHER)  # nothing is left to mirror
    assert [run.rows for run in sync(root, folder, board=board, project="ablation-lab")] == [0, 0]

    rows = READERS[board](folder, RUN)
    assert {s: r for s, r in rows.items() if s < 20} == {s: row_of(s) for s in range(1, 20)}
    last = rows[20]
    assert {key: last[key] for key in row_of(20)} == row_of(20)
    if board == "tensorboard":
        assert last["layers"] == b"\x89PNG"
        assert last["samples"].splitlines()[2] == "plain_x4|2|20000|Mia \\| x|ran home"
        assert "final/state|diverged" in last["final"] and "final/reason|loss \\| gone" in last["final"]
    else:
        assert last["alert"] == ("plain_x4-seed2 diverged", "loss | gone")
        assert (last["final/state"], last["final/val/bpb"]) == ("diverged", 1.75)
        (sample,) = last["samples"]["_value"]
        assert sample == {
            "arm": "plain_x4",
            "seed": 2,
            "tokens": 20000,
            "prompt": "Mia | x",
            "text": "ran\nhome",
        }
        assert (folder / "media" / last["layers"]["file_path"]).read_bytes()[:4] == b"\x89PNG"
    other = READERS[board](folder, OTHER)
    assert list(other) == list(range(1, 11))
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert [secret for secret in (*MARKERS.values(), str(root)) if secret.encode() in written] == []


@pytest.mark.parametrize("board", READERS)
def test_a_killed_follower_leaves_neither_a_hole_nor_a_double(tmp_path: Path, board: str) -> None:
    pytest.importorskip(
        board, reason=f"the package {board} is not installed; see pyproject.toml, extra {board}"
    )
    root, folder = tmp_path / "runs", tmp_path / board
    write_run(root, steps=range(1, 13))
    follower = tracker.start(root, folder, [RUN], board=board, project="ablation-lab", mode="auto")
    assert follower is not None
    deadline = time.monotonic() + 60
    while not (folder / "mirrored.json").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)  # some rows are written, or none
    follower._process.send_signal(signal.SIGKILL)
    follower.close()
    write_run(root, steps=range(13, 21), summary=SUMMARY)
    mirror(board, root, folder, RUN)
    assert sorted(READERS[board](folder, RUN)) == list(range(1, 21))
    if board == "trackio":  # the database itself says what it has
        (folder / "mirrored.json").unlink()
        mirror(board, root, folder, RUN)
        assert sorted(READERS[board](folder, RUN)) == list(range(1, 21))


@pytest.mark.parametrize("board", READERS)
def test_a_missing_package_is_named_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, board: str
) -> None:
    monkeypatch.setattr("lab.config.trackers.find_spec", lambda name: None)
    with pytest.raises(ConfigError) as caught:
        compose([Override(f"tracker={board}")])
    (problem,) = caught.value.problems
    assert problem.startswith(f"tracker.name = {board}") and f"pip install --editable '.[{board}]'" in problem


def test_the_picture_shows_each_layer_in_its_place() -> None:
    """Block 1 alone jumps at the third of four measurements: its cell alone has the top colour."""
    from matplotlib import colormaps
    from PIL import Image

    step = LogLine("step", 1, 1, {"train/loss": 5.0})
    lines = [
        LogLine("diagnostics", t, 1000 * t, {f"residual/rms/{i}": 1 for i in range(3)}) for t in range(1, 5)
    ]
    lines[2].values["residual/rms/1"] = 100
    lines[3].values["residual/rms/2"] = None
    picture = layers.draw([step, *lines], title="a $b$ run")
    assert picture is not None
    pixels = Image.open(io.BytesIO(picture)).convert("RGB")
    left, right, top, bottom = extent(pixels, colour(colormaps["viridis"](1.0)))
    width, height = right - left, bottom - top
    low_left, _, low_top, low_bottom = extent(pixels, colour(colormaps["viridis"](0.0)))
    assert left - low_left == pytest.approx(2 * width, abs=4)
    assert (top - low_top, low_bottom - bottom) == pytest.approx((height, height), abs=4)
    later, higher = right + width // 2, top - height // 2
    assert pixels.getpixel((later, higher)) == (0xD9, 0xD9, 0xD9)
    assert pixels.getpixel((later, bottom - height // 2)) == colour(colormaps["viridis"](0.0))
    assert layers.draw([step], title="") is None


def colour(rgba: tuple[float, ...]) -> tuple[int, ...]:
    return tuple(round(255 * value) for value in rgba[:3])


def extent(pixels: Any, colour: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Left, right, top and bottom of what has a colour, but for the colour bar at the right."""
    width, height = int(pixels.width * 0.85), pixels.height
    found = [(x, y) for x in range(width) for y in range(height) if pixels.getpixel((x, y)) == colour]
    columns, rows = zip(*found, strict=True)
    return min(columns), max(columns), min(rows), max(rows)
