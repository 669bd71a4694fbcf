"""Can nothing that W&B does reach the sweep, and does `sync` send each step once?

A client that misbehaves is a stand-in module named wandb, see tests/wandb_module.py.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lab.config.strict import ConfigError
from lab.track import follower as tracker
from lab.track import wandb
from lab.track.backlog import Sent, sync
from lab.track.login import resolve_mode
from lab.track.mirror import sole_writer
from tests import tracked_run
from tests.paths import ROOT
from tests.tracked_run import RUN, SUMMARY, digests, row_of, write_run
from tests.wandb_module import stand_in

ambient = tracked_run.ambient
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ambient")]


@pytest.mark.parametrize("misdeed", ["raise OSError('no network')", "time.sleep(600)", "os._exit(3)"])
def test_a_bad_client_costs_the_sweep_the_close_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, misdeed: str
) -> None:
    stand_in(tmp_path, monkeypatch, on_init=misdeed)
    write_run(tmp_path / "runs", steps=range(1, 5), summary=SUMMARY)
    before = digests(tmp_path / "runs")
    follower = tracker.start(
        tmp_path / "runs", tmp_path / "mirror", [RUN], board="wandb", project="p", mode="online"
    )
    assert follower is not None
    if "exit" in misdeed:
        assert follower._process.wait(timeout=60) == 3
        follower.announce(["ffffffffffff"])  # the sweep does not know that it is dead
    closer = threading.Thread(target=follower.close)
    closer.start()
    closer.join(timeout=30)  # far from 600 s
    assert not closer.is_alive()
    assert follower._process.poll() is not None
    assert digests(tmp_path / "runs") == before


def test_failing_online_falls_back_to_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = stand_in(tmp_path, monkeypatch, on_init="if mode == 'online': raise OSError('no network')")
    write_run(tmp_path / "runs", steps=range(1, 5), summary=SUMMARY)
    follower = tracker.start(
        tmp_path / "runs", tmp_path / "mirror", [RUN], board="wandb", project="p", mode="auto"
    )
    assert follower is not None
    follower.close(timeout=60)
    sent = json.loads(server.read_text())
    assert list(sent) == [f"offline {RUN}"]
    assert [step for step, _ in sent[f"offline {RUN}"]["rows"]] == [1, 2, 3, 4]
    assert (tmp_path / "mirror" / "follower.log").read_text().count("no network") == 1


def test_follower_of_a_killed_sweep_sends_the_rest_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, root, mirror = stand_in(tmp_path, monkeypatch), tmp_path / "runs", tmp_path / "mirror"
    write_run(root, steps=range(1, 13))
    sweep = """if True:
        import os, pathlib, signal, sys
        from lab.track import follower as tracker
        root, mirror = map(pathlib.Path, sys.argv[1:3])
        follower = tracker.start(root, mirror, sys.argv[3:], board="wandb", project="p", mode="auto")
        print(follower._process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    command = [sys.executable, "-c", sweep, str(root), str(mirror), RUN]
    project = ROOT
    killed = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 60
    while is_alive(int(killed.stdout)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(int(killed.stdout))
    (run,) = json.loads(server.read_text()).values()
    assert ([step for step, _ in run["rows"]], run["exit"]) == (list(range(1, 12)), 1)


def is_alive(pid: int) -> bool:
    """Whether a process that is no child of this one still runs; one only waiting to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_sync_sends_what_is_missing_and_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, root, mirror = stand_in(tmp_path, monkeypatch), tmp_path / "runs", tmp_path / "mirror"
    ended = "a" * 12
    write_run(root, steps=range(1, 13))
    write_run(root, steps=range(1, 21), summary={**SUMMARY, "state": "failed"}, run_id=ended)
    assert sync(root, mirror, project="p") == [
        Sent(RUN, "partial", 11),
        Sent(ended, "synced", 20),
    ]
    # The server lost the tail of what it was sent: only it knows, and it is asked.
    content = json.loads(server.read_text())
    del content[f"online {RUN}"]["rows"][9:]
    server.write_text(json.dumps(content))
    write_run(root, steps=range(13, 21), summary=SUMMARY)
    assert sync(root, mirror, project="p") == [
        Sent(RUN, "synced", 11),
        Sent(ended, "synced", 0),
    ]
    again = server.read_bytes()
    assert [run.rows for run in sync(root, mirror, project="p")] == [0, 0]
    assert server.read_bytes() == again
    content = json.loads(again)
    assert content[f"online {RUN}"] == {
        "rows": [*([s, row_of(s)] for s in range(1, 20)), [20, {**row_of(20), "layers": "PNG"}]],
        "exit": 0,
    }
    assert content[f"online {ended}"]["exit"] == 1
    assert "WANDB_RUN_ID" not in os.environ


def test_sync_reports_failures_and_does_not_wait_for_a_dead_server_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, on_init="time.sleep(0.2); raise OSError('timed out')")
    for run_id in ("a" * 12, "b" * 12):
        write_run(tmp_path / "runs", steps=range(1, 5), summary=SUMMARY, run_id=run_id)
    quick = sync(tmp_path / "runs", tmp_path / "mirror", project="p")
    assert [(run.state, run.reason) for run in quick] == [("failed", "timed out")] * 2
    monkeypatch.setattr(wandb, "INIT_SECONDS", 0.1)
    slow = sync(tmp_path / "runs", tmp_path / "mirror", project="p")
    assert [run.reason for run in slow] == ["timed out", "not tried after: timed out"]


def test_sync_needs_a_login_and_a_free_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sole_writer(tmp_path / "mirror", wait=False), pytest.raises(ConfigError, match="in use"):
        sync(tmp_path / "runs", tmp_path / "mirror", project="p")
    monkeypatch.delenv("WANDB_API_KEY")
    with pytest.raises(ConfigError, match="WANDB_API_KEY"):
        sync(tmp_path / "runs", tmp_path / "mirror", project="p")


def test_sync_completes_the_offline_folder_without_a_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = stand_in(tmp_path, monkeypatch)
    monkeypatch.delenv("WANDB_API_KEY")
    write_run(tmp_path / "runs", steps=range(1, 5), summary=SUMMARY)
    for sent in (4, 0):
        results = sync(tmp_path / "runs", tmp_path / "mirror", project="p", mode="offline")
        assert results == [Sent(RUN, "synced", sent)]
    (run,) = json.loads(server.read_text()).items()
    assert (run[0], [step for step, _ in run[1]["rows"]]) == (f"offline {RUN}", [1, 2, 3, 4])


def test_mode_follows_login_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_mode("auto") == "online"
    monkeypatch.delenv("WANDB_API_KEY")
    assert resolve_mode("auto") == "offline"
    with pytest.raises(ConfigError, match=r"tracker\.mode = online"):
        resolve_mode("online")

    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".netrc").write_text("machine api.wandb.ai login user password secret\n")
    assert resolve_mode("auto") == "online"
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org")
    assert resolve_mode("auto") == "offline"

    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert (
        tracker.start(tmp_path / "runs", tmp_path / "mirror", [RUN], board="wandb", project="p", mode="auto")
        is None
    )
    monkeypatch.setenv("WANDB_MODE", "sometimes")
    with pytest.raises(ConfigError, match="WANDB_MODE = sometimes"):
        resolve_mode("auto")
