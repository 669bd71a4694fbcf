"""How do the runs get to Weights & Biases without ever standing in the way of training?

The run store is the truth and W&B a mirror of it. A separate process, the follower, reads metrics.jsonl as
it grows and logs it to W&B: online where there is a login, offline where there is none. Training never waits
for it, and a client that hangs or crashes takes down only the follower; `sync` uploads later what is missing.

    <mirror>/follower.log     what the followers and the client had to say
             lock             held (flock) by the one process that writes to the mirror
             ...              the runs themselves, see lab/mirror.py
"""

import contextlib
import fcntl
import logging
import netrc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lab.config import ConfigError
from lab.mirror import INIT_SECONDS, Journal, Mirror, RunMirror
from lab.runs import RunStore

POLL_SECONDS = 2.0
ORPHAN_SECONDS = 60.0  # how long a follower may go on after its sweep is gone
# Of the client's variables only who logs in where is passed on: the others can rename, join or redirect runs.
LOGIN_VARIABLES = frozenset(
    f"WANDB_{name}"
    for name in "API_KEY BASE_URL ENTITY IDENTITY_TOKEN_FILE CREDENTIALS_FILE CONFIG_DIR CACHE_DIR DATA_DIR "
    "HTTP_TIMEOUT INSECURE_DISABLE_SSL".split()
)

log = logging.getLogger(__name__)


def resolve_mode(mode: str) -> str:
    """The W&B mode of a sweep: "online", "offline" or "disabled".

    `mode` is the configured one: auto, online or offline; the variable WANDB_MODE, where set, overrides it.
    Raises ConfigError for an unknown mode, and for online where nobody is logged in.
    """
    key, wanted = "tracker.mode", mode
    if os.environ.get("WANDB_MODE"):
        key, wanted = "WANDB_MODE", os.environ["WANDB_MODE"]
    if wanted == "auto":
        return "online" if has_login() else "offline"
    if wanted not in ("online", "offline", "disabled"):
        raise ConfigError(f"{key} = {wanted}: not a W&B mode. Choose auto, online or offline.")
    if wanted == "online" and not has_login():
        raise ConfigError(
            f"{key} = online: no W&B login. Set WANDB_API_KEY, run `wandb login` or go offline."
        )
    return wanted


def has_login() -> bool:
    """Whether the client will find a key for its server, in the environment or in ~/.netrc, and not ask."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    server = urlsplit(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").netloc
    path = os.environ.get("NETRC") or Path.home() / ".netrc"
    try:
        return netrc.netrc(path).authenticators(server) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def client_environment(mode: str) -> dict[str, str]:
    """This process's environment less all that could name a W&B run and, offline, less the key."""
    passed = LOGIN_VARIABLES - {"WANDB_API_KEY"} if mode == "offline" else LOGIN_VARIABLES
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WANDB_") or k in passed}
    return {**environment, "WANDB_ERROR_REPORTING": "false"}


def follow(
    runs_folder: Path,
    mirror_folder: Path,
    *,
    project: str,
    mode: str,
    run_ids: list[str],
    stop: threading.Event,
) -> None:
    """Mirror the runs in `run_ids`, which may grow meanwhile, until `stop` is set and all there is was sent.

    The first failure online turns to offline for good; a run that fails offline is left out. Both are logged.
    """
    with _sole_writer(mirror_folder, wait=True):
        journal = Journal(mirror_folder / "mirrored.json")
        mirror = Mirror(RunStore(runs_folder), mirror_folder, project, journal)
        open_runs: dict[str, RunMirror] = {}
        left_out: set[str] = set()
        last_pass = False
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
                    log.warning("W&B failed on run %s, `lab sync` can upload it later: %r", run_id, error)
                    open_runs.pop(run_id, None)
                    if mode == "offline":
                        left_out.add(run_id)
                        continue
                    log.warning("W&B goes on offline")
                    mode, last_pass = "offline", False
                    open_runs.clear()
                    _restart_client()
                    break


def _restart_client() -> None:
    """Make the client forget its runs: it refuses to open, even offline, an id that failed before."""
    with contextlib.suppress(Exception):
        import wandb

        wandb.teardown(exit_code=1)


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

    def close(self, timeout: float = 5.0) -> None:
        """Say that the sweep is over, leave the follower `timeout` seconds to send the rest, then end it."""
        self._stdin.close()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def start(
    runs_folder: Path, mirror_folder: Path, run_ids: Iterable[str], *, project: str, mode: str
) -> Follower | None:
    """Start a follower for these runs and those announced later; None where W&B is disabled or can't start.

    The follower ends by itself when this process does. Raises ConfigError as `resolve_mode` does.
    """
    mode = resolve_mode(mode)
    if mode == "disabled":
        return None
    folders = [str(folder.resolve()) for folder in (runs_folder, mirror_folder)]
    try:
        mirror_folder.mkdir(parents=True, exist_ok=True)
        with open(mirror_folder / "follower.log", "ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "lab.tracker", *folders, project, mode],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=client_environment(mode),
                cwd=Path(__file__).resolve().parents[1],
                start_new_session=True,  # Ctrl-C is for the sweep; the follower sees its pipe close
            )
    except OSError as error:
        print(f"warning: no W&B for this sweep ({error}); `lab sync` can upload it later", file=sys.stderr)
        return None
    follower = Follower(process)
    follower.announce(run_ids)
    return follower


def main(arguments: list[str]) -> None:
    """The follower process. Arguments: RUNS_FOLDER MIRROR_FOLDER PROJECT MODE; standard input: run ids."""
    runs_folder, mirror_folder, project, mode = arguments
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
    follow(Path(runs_folder), Path(mirror_folder), project=project, mode=mode, run_ids=run_ids, stop=stop)


def sync(runs_folder: Path, mirror_folder: Path, *, project: str) -> list[dict[str, Any]]:
    """Upload what W&B lacks of the runs in the store; repeating it sends nothing twice.

    Returns {"id", "state", "sent" (rows)} of each run that has started. The state is "synced" (W&B has it to
    its end), "partial" (W&B has all there is of a run without an end) or "failed", then with a "reason". Once
    W&B has not answered in time, the remaining runs are failed untried. This process loses the variables that
    could name a W&B run. Raises ConfigError if nobody is logged in or another process writes to the mirror.
    """
    if not has_login():
        raise ConfigError(
            "sync: no W&B login. Set WANDB_API_KEY or run `wandb login`, then repeat `lab sync`."
        )
    environment = client_environment("online")
    os.environ |= environment
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    try:
        with _sole_writer(mirror_folder, wait=False):
            journal = Journal(mirror_folder / "mirrored.json")
            return _upload(Mirror(RunStore(runs_folder), mirror_folder, project, journal))
    except BlockingIOError as error:
        problem = f"sync: {mirror_folder} is in use by a sweep. Wait for its end, then repeat `lab sync`."
        raise ConfigError(problem) from error


def _upload(mirror: Mirror) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    unreachable = ""
    for run_id in mirror.store.ids():
        result: dict[str, Any] = {"id": run_id, "state": "synced", "sent": 0}
        if not mirror.is_due(run_id, "online"):
            if mirror.summary(run_id):
                results.append(result)
            continue
        results.append(result)
        if unreachable:
            result |= {"state": "failed", "reason": f"not tried after: {unreachable}"}
            continue
        began = time.monotonic()
        try:
            run = RunMirror(mirror, run_id, mode="online")
            if not run.advance():
                run.close()
                result["state"] = "partial"
            result["sent"] = run.sent
        except Exception as error:
            result |= {"state": "failed", "reason": str(error)}
            _restart_client()
            if time.monotonic() - began >= INIT_SECONDS:  # a server that refuses does so at once
                unreachable = str(error)
    return results


if __name__ == "__main__":
    main(sys.argv[1:])
