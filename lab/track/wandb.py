"""How does a run look at Weights & Biases, and who is logged in there?

Group is the ablation, job type the arm, and every panel's x-axis is `tokens`. summary.json shows as
`final/<key>`. A run that diverged or failed ends with exit code 1, so W&B lists it as failed; the state
also is a tag and `state` in the configuration, by which the table of runs groups.

    <folder>/wandb/   the client's folders; `wandb leet <folder>/wandb` shows them without an account
             data/    tables on their way, for `wandb sync`
"""

import contextlib
import io
import netrc
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lab.config.strict import ConfigError
from lab.track.dashboards import SAMPLE_COLUMNS, Card, final

INIT_SECONDS = 20.0  # how long W&B may take to accept a run
UPLOAD_SECONDS = 60.0  # how long W&B may take to receive the rest of a run when it ends
# Of the client's variables only who logs in where is passed on: the others can rename, join or redirect runs.
LOGIN_VARIABLES = frozenset(
    f"WANDB_{name}"
    for name in "API_KEY BASE_URL ENTITY IDENTITY_TOKEN_FILE CREDENTIALS_FILE CONFIG_DIR CACHE_DIR DATA_DIR "
    "HTTP_TIMEOUT INSECURE_DISABLE_SSL".split()
)


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


def restart_client() -> None:
    """Make the client forget its runs: it refuses to open, even offline, an id that failed before."""
    with contextlib.suppress(Exception):
        import wandb

        wandb.teardown(exit_code=1)


def open(card: Card, *, folder: Path, mode: str) -> "_Run":
    os.environ.setdefault("WANDB_DATA_DIR", str(folder / "data"))  # else tables wait in the user's home
    import wandb

    settings = wandb.Settings(
        console="off",
        disable_code=True,
        disable_git=True,
        host="",
        program="lab",  # instead of a path of this machine
        x_disable_meta=True,  # it holds the command line
        x_disable_machine_info=True,
        x_disable_stats=True,
        x_save_requirements=False,
        silent=True,
        init_timeout=INIT_SECONDS,
        finish_timeout=UPLOAD_SECONDS,
        finish_timeout_raises=True,
    )
    run = wandb.init(
        id=card.run_id,
        project=card.project,
        group=card.group,
        job_type=card.job_type,
        tags=card.tags,
        name=card.name,
        config=card.config,
        dir=folder,
        mode=mode,  # type: ignore[arg-type]
        resume="allow",
        reinit="create_new",
        settings=settings,
    )
    run.config.update({"state": "running"}, allow_val_change=True)
    run.define_metric("tokens")
    run.define_metric("*", step_metric="tokens")
    for name in ("val/bpb", "val/loss"):
        run.define_metric(name, step_metric="tokens", summary="min")
    return _Run(run, card, mode)


class _Run:
    def __init__(self, run: Any, card: Card, mode: str):
        self._run, self._card = run, card
        # Online only the server knows what has arrived.
        self.next_step = run.starting_step if mode == "online" else None
        # A killed client loses the rows it had not written yet.
        self.segment = f"wandb/{Path(run.dir).parent.name}" if mode == "offline" else None

    def log(self, row: dict[str, Any], *, step: int) -> None:
        self._run.log({key: self._shown(value) for key, value in row.items()}, step=step)

    def _shown(self, value: Any) -> Any:
        import wandb

        if isinstance(value, bytes):
            from PIL import Image

            return wandb.Image(Image.open(io.BytesIO(value)))
        if isinstance(value, list):
            return wandb.Table(columns=list(SAMPLE_COLUMNS), data=self._card.sample_rows(value))
        return value

    def close(self, summary: dict[str, Any] | None) -> None:
        state = summary["state"] if summary else None
        if summary:
            self._run.summary.update({"final/reason": None, **final(summary)})  # a failed run may be retried
            self._run.config.update({"state": state}, allow_val_change=True)
            if state != "finished":
                self._run.tags = [*self._card.tags, state]
        self._run.finish(exit_code=0 if state == "finished" else 1)
