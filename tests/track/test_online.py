"""Does the real W&B client bring every step to a server once, and what remains when the server is broken?

The server is tests/wandb_server.py on this machine.
"""

import json
import socket
from pathlib import Path

import pytest

from lab.store.run_store import RunStore
from lab.track import backlog, wandb
from lab.track import follower as tracker
from lab.track.backlog import Sent
from tests import tracked_run
from tests.tracked_run import MARKERS, RUN, SUMMARY, add_samples, end_run, write_run
from tests.wandb_server import FAILING_STEP, WandbServer, serving

ambient = tracked_run.ambient
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ambient")]


def sync(root: Path, mirror: Path) -> list[Sent]:
    sent = backlog.sync(root, mirror, project="p")
    wandb.restart_client()  # as the end of the process does
    return sent


def test_a_resumed_run_continues_its_history_and_shows_how_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, mirror = tmp_path / "runs", tmp_path / "mirror"
    with serving() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        write_run(root, steps=range(1, 13))
        assert sync(root, mirror) == [Sent(RUN, "partial", 11)]
        assert server.steps(RUN) == list(range(1, 12))
        RunStore(root).open_metrics(RUN, after=8).close()
        write_run(root, steps=range(9, 21))
        add_samples(root, step=20)
        end = {
            "state": "diverged",
            "reason": "loss",
            "skills": {"recall": {"excess": 0.5, "words": 3, "floor": 1.25, "accuracy": None}},
        }
        end_run(root, {**SUMMARY, **end})
        assert sync(root, mirror) == [Sent(RUN, "synced", 9)]
        assert [run.rows for run in sync(root, mirror)] == [0]

        assert server.steps(RUN) == list(range(1, 21))
        run = server.runs[RUN]
        assert (run["exit"], run["groupName"], run["jobType"]) == (1, "ffn-ratio", "plain_x4")
        assert run["tags"] == ["ffn_ratio", "nano", "stories", "diverged"]
        assert run["config"]["state"] == {"value": "diverged"}
        final = {key: value for key, value in run["summary"].items() if key.startswith("final/")}
        assert final == {
            "final/state": "diverged",
            "final/reason": "loss",
            "final/steps": 20,
            "final/val/bpb": 1.75,
            "final/skills/recall/excess": 0.5,
            "final/skills/recall/floor": 1.25,
            "final/skills/recall/words": 3,
        }
        last = json.loads(run["history"][19])
        table, picture = (server.files[f"{RUN}/{last[key]['path']}"] for key in ("samples", "layers"))
        assert json.loads(table)["columns"] == ["arm", "seed", "tokens", "prompt", "text"]
        assert json.loads(table)["data"] == [
            ["plain_x4", 2, 20000, "Once | upon", "a\ntime"],
            ["plain_x4", 2, 20000, "Mia", "ran"],
        ]
        assert picture.startswith(b"\x89PNG")
        told = json.dumps([run, sorted(server.files)]) + "".join(map(str, server.files.values()))
        assert not [marker for marker in (*MARKERS.values(), str(tmp_path), "tracker.py") if marker in told]


def test_a_failed_run_that_is_retried_no_longer_shows_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, mirror, store = tmp_path / "runs", tmp_path / "mirror", RunStore(tmp_path / "runs")
    with serving() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        write_run(root, steps=range(1, 13), summary={**SUMMARY, "state": "failed", "reason": "RuntimeError"})
        sync(root, mirror)
        run = server.runs[RUN]
        assert (run["exit"], run["summary"]["final/reason"], run["tags"][-1]) == (1, "RuntimeError", "failed")
        (root / RUN / "summary.json").unlink()
        store.open_metrics(RUN, after=8).close()
        write_run(root, steps=range(9, 21), summary=SUMMARY)
        sync(root, mirror)
        assert server.steps(RUN) == list(range(1, 21))
        assert (run["exit"], run["summary"].get("final/reason"), run["config"]["state"]["value"]) == (
            0,
            None,
            "finished",
        )
        assert run["tags"] == ["ffn_ratio", "nano", "stories"]


def run_out(server: WandbServer | None, root: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower over an ended run of 80 steps, ended as a sweep ends it."""
    port = free_port() if server is None else server.server_address[1]
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{port}")
    write_run(root, steps=range(1, 81), summary=SUMMARY)
    follower = tracker.start(root, mirror, [RUN], board="wandb", project="p", mode="auto")
    assert follower is not None
    follower.close(timeout=3.0)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("kind", ["closed port", "wrong key", "silent", "errors from 50"])
def test_what_a_broken_server_lacks_a_good_one_gets_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    root, mirror = tmp_path / "runs", tmp_path / "mirror"
    if kind == "closed port":
        run_out(None, root, mirror, monkeypatch)
    else:
        with serving(kind) as broken:
            run_out(broken, root, mirror, monkeypatch)
    with serving() as server:
        if kind == "errors from 50":  # the same server, mended
            server.runs = broken.runs
            assert server.steps(RUN) == list(range(1, len(server.steps(RUN)) + 1))
            assert len(server.steps(RUN)) <= FAILING_STEP
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        assert [run.state for run in sync(root, mirror)] == ["synced"]
        assert server.steps(RUN) == list(range(1, 81))
        assert server.runs[RUN]["exit"] == 0
