"""How do the runs get to a dashboard without ever standing in the way of training?

The run store is the truth and the dashboard a mirror of it. A separate process, the follower, reads
metrics.jsonl as it grows and logs it to W&B, online where there is a login and offline where there is
none, or to another of lab/board. Training never waits for it, and a client that hangs or crashes takes
down only the follower; `sync` sends later what is missing.

    <mirror>/follower.log     what the followers and the client had to say
             lock             held (flock) by the one process that writes to the mirror
             ...              the runs themselves, see lab/track/mirror.py
"""

import contextlib
import fcntl
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lab.config.strict import ConfigError
from lab.store.run_store import RunStore
from lab.track import layers, wandb
from lab.track.mirror import Journal, Mirror, RunMirror

POLL_SECONDS = 2.0
CLOSE_SECONDS = 4.5  # how long the end of a sweep may wait for its follower
ORPHAN_SECONDS = 60.0  # how long a follower may go on after its sweep is gone
CLIENT_PREFIXES = ("WANDB_", "TRACKIO_")

log = logging.getLogger(__name__)


def mode_of(board: str, mode: str) -> str:
    """How a sweep mirrors: as W&B resolves its `mode`, or "local" for a dashboard in a folder."""
    return wandb.resolve_mode(mode) if board == "wandb" else "local"


def client_environment(mode: str) -> dict[str, str]:
    """This process's environment less all that could name or send a run elsewhere and, but for online,
    less the key.
    """
    passed = wandb.LOGIN_VARIABLES if mode == "online" else wandb.LOGIN_VARIABLES - {"WANDB_API_KEY"}
    environment = {k: v for k, v in os.environ.items() if not k.startswith(CLIENT_PREFIXES) or k in passed}
    return {**environment, "WANDB_ERROR_REPORTING": "false"}


def follow(mirror: Mirror, *, mode: str, run_ids: list[str], stop: threading.Event) -> None:
    """Mirror the runs in `run_ids`, which may grow meanwhile, until `stop` is set and all there is was sent.

    The first failure online turns to offline for good; a run that fails otherwise is left out. Both are
    logged.
    """
    open_runs: dict[str, RunMirror] = {}
    left_out: set[str] = set()
    last_pass = False
    with contextlib.suppress(Exception):
        layers.preload()
    while not last_pass:
        last_pass = stop.wait(POLL_SECONDS)
        for run_id in [r for r in run_ids if r not in left_out]:
            try:
                if run_id not in open_runs and mirror.is_due(run_id, mode):
                    open_runs[run_id] = RunMirror(mirror, run_id, mode=mode)
                if run_id in open_runs and open_runs[run_id].advance():
                    del open_runs[run_id]
                elif run_id in open_runs and last_pass:
                    open_runs.pop(run_id).close()
            except Exception as error:
                log.warning(
                    "%s failed on run %s; `lab sync` can send it later: %r", mirror.board, run_id, error
                )
                open_runs.pop(run_id, None)
                if mode != "online":
                    left_out.add(run_id)
                    continue
                log.warning("W&B goes on offline")
                mode, last_pass = "offline", False
                open_runs.clear()
                wandb.restart_client()
                break


@contextlib.contextmanager
def _writing(
    runs_folder: Path, mirror_folder: Path, board: str, project: str, *, wait: bool
) -> Iterator[Mirror]:
    """The mirror, held against other processes. Raises BlockingIOError if one has it and `wait` is false."""
    with _sole_writer(mirror_folder, wait=wait):
        journal = Journal(mirror_folder / "mirrored.json")
        yield Mirror(RunStore(runs_folder), mirror_folder, board, project, journal)


@contextlib.contextmanager
def _sole_writer(mirror_folder: Path, *, wait: bool) -> Iterator[None]:
    """Hold the mirror against other processes. Raises BlockingIOError if one has it and `wait` is false."""
    mirror_folder.mkdir(parents=True, exist_ok=True)
    with open(mirror_folder / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


class Follower:
    """A sweep's handle on its follower process. Nothing here raises, and only `close` waits."""

    def __init__(self, process: subprocess.Popen[bytes]):
        assert process.stdin is not None
        self._process, self._stdin = process, process.stdin
        os.set_blocking(self._stdin.fileno(), False)

    def announce(self, run_ids: Iterable[str]) -> None:
        """Name runs to mirror. They need not have started yet."""
        with contextlib.suppress(OSError):  # a follower that is dead or stuck: `sync` catches up
            for run_id in run_ids:
                self._stdin.write(f"{run_id}\n".encode())

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Say that the sweep is over, leave the follower `timeout` seconds to send the rest, then end it."""
        self._stdin.close()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def start(
    runs_folder: Path, mirror_folder: Path, run_ids: Iterable[str], *, board: str, project: str, mode: str
) -> Follower | None:
    """Start a follower for these runs and those announced later; None where it is switched off or can't
    start.

    The follower ends by itself when this process does. Raises ConfigError as `wandb.resolve_mode` does.
    """
    mode = mode_of(board, mode)
    if mode == "disabled":
        return None
    folders = [str(folder.resolve()) for folder in (runs_folder, mirror_folder)]
    try:
        mirror_folder.mkdir(parents=True, exist_ok=True)
        with open(mirror_folder / "follower.log", "ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "lab.track.follower", *folders, board, project, mode],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=client_environment(mode),
                cwd=Path(__file__).resolve().parents[1],
                start_new_session=True,  # Ctrl-C is for the sweep; the follower sees its pipe close
            )
    except OSError as error:
        print(f"warning: no {board} for this sweep ({error}); `lab sync` can send it later", file=sys.stderr)
        return None
    follower = Follower(process)
    follower.announce(run_ids)
    return follower


def main(arguments: list[str]) -> None:
    """The follower process. Arguments: RUNS_FOLDER MIRROR_FOLDER BOARD PROJECT MODE; standard input: run ids."""
    runs_folder, mirror_folder, board, project, mode = arguments
    os.nice(10)  # training comes first where cores are few
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    run_ids: list[str] = []
    stop = threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            run_ids.append(line.strip())
        stop.set()
        time.sleep(ORPHAN_SECONDS)
        os._exit(1)  # the client hangs, and the sweep that would have ended this process is dead

    threading.Thread(target=listen, daemon=True).start()
    with _writing(Path(runs_folder), Path(mirror_folder), board, project, wait=True) as mirror:
        follow(mirror, mode=mode, run_ids=run_ids, stop=stop)


def sync(
    runs_folder: Path, mirror_folder: Path, *, board: str = "wandb", project: str, mode: str = "auto"
) -> list[dict[str, Any]]:
    """Send what the dashboard lacks of the runs in the store; repeating it sends nothing twice.

    To W&B it uploads, unless `mode` is offline. Returns {"id", "state", "sent" (rows)} of each run that
    has started. The state is "synced" (the dashboard has it to its end), "partial" (it has all there is of
    a run without an end) or "failed", then with a "reason". Once W&B has not answered in time, the
    remaining runs are failed untried. This process loses the variables that could name a run. Raises
    ConfigError if nobody is logged in or another process writes to the mirror.
    """
    if board == "wandb":
        mode = "offline" if mode == "offline" else "online"
    else:
        mode = "local"
    if mode == "online" and not wandb.has_login():
        raise ConfigError(
            "sync: no W&B login. Set WANDB_API_KEY or run `wandb login`, then repeat `lab sync`."
        )
    environment = client_environment(mode)
    os.environ |= environment
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    try:
        with _writing(runs_folder, mirror_folder, board, project, wait=False) as mirror:
            return _send(mirror, mode)
    except BlockingIOError as error:
        problem = f"sync: {mirror_folder} is in use by a sweep. Wait for its end, then repeat `lab sync`."
        raise ConfigError(problem) from error


def _send(mirror: Mirror, mode: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    unreachable = ""
    for run_id in mirror.store.ids():
        result: dict[str, Any] = {"id": run_id, "state": "synced", "sent": 0}
        if not mirror.is_due(run_id, mode):
            if mirror.summary(run_id):
                results.append(result)
            continue
        results.append(result)
        if unreachable:
            result |= {"state": "failed", "reason": f"not tried after: {unreachable}"}
            continue
        began = time.monotonic()
        try:
            run = RunMirror(mirror, run_id, mode=mode)
            if not run.advance():
                run.close()
                result["state"] = "partial"
            result["sent"] = run.sent
        except Exception as error:
            result |= {"state": "failed", "reason": str(error)}
            if mirror.board == "wandb":
                wandb.restart_client()
            if time.monotonic() - began >= wandb.INIT_SECONDS:  # a server that refuses does so at once
                unreachable = str(error)
    return results


if __name__ == "__main__":
    main(sys.argv[1:])
