"""What is a dashboard missing of the runs in the store? `sync` sends it at any later time; repeating it sends
nothing twice.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from lab.config.strict import ConfigError
from lab.track import wandb
from lab.track.login import client_environment, has_login
from lab.track.mirror import Mirror, RunMirror, writing


@dataclass(frozen=True)
class Sent:
    """What `sync` did with one run.

    The state is "synced" (the dashboard has it to its end), "partial" (it has all there is of a run without
    an end) or "failed", then with a reason.
    """

    run_id: str
    state: str
    rows: int = 0  # the steps that were sent now
    reason: str | None = None

    def json(self) -> dict[str, str | int]:
        """The record that `lab sync` prints."""
        reason = {} if self.reason is None else {"reason": self.reason}
        return {"id": self.run_id, "state": self.state, "sent": self.rows, **reason}


def sync(
    runs_folder: Path, mirror_folder: Path, *, board: str = "wandb", project: str, mode: str = "auto"
) -> list[Sent]:
    """Send what the dashboard lacks of each run that has started.

    To W&B it uploads, unless `mode` is offline. Once W&B has not answered in time, the remaining runs are
    failed untried. This process loses the variables that could name a run. Raises ConfigError if nobody is
    logged in or another process writes to the mirror.
    """
    if board == "wandb":
        mode = "offline" if mode == "offline" else "online"
    else:
        mode = "local"
    if mode == "online" and not has_login():
        raise ConfigError(
            "sync: no W&B login. Set WANDB_API_KEY or run `wandb login`, then repeat `lab sync`."
        )
    environment = client_environment(mode)
    os.environ |= environment
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    try:
        with writing(runs_folder, mirror_folder, board=board, project=project, wait=False) as mirror:
            return _send(mirror, mode)
    except BlockingIOError as error:
        problem = f"sync: {mirror_folder} is in use by a sweep. Wait for its end, then repeat `lab sync`."
        raise ConfigError(problem) from error


def _send(mirror: Mirror, mode: str) -> list[Sent]:
    results: list[Sent] = []
    unreachable = ""
    for run_id in mirror.store.ids():
        if not mirror.is_due(run_id, mode):
            if mirror.store.summary(run_id):
                results.append(Sent(run_id, "synced"))
            continue
        if unreachable:
            results.append(Sent(run_id, "failed", reason=f"not tried after: {unreachable}"))
            continue
        began = time.monotonic()
        try:
            run = RunMirror(mirror, run_id, mode=mode)
            ended = run.advance()
            if not ended:
                run.close()
            results.append(Sent(run_id, "synced" if ended else "partial", run.sent))
        except Exception as error:
            results.append(Sent(run_id, "failed", reason=str(error)))
            if mirror.board == "wandb":
                wandb.restart_client()
            if time.monotonic() - began >= wandb.INIT_SECONDS:  # a server that refuses does so at once
                unreachable = str(error)
    return results
