"""How does a run look at Weights & Biases?

Group is the ablation, job type the arm, and every panel's x-axis is `tokens`. summary.json shows as
`final/<key>`. A run that diverged or failed ends with exit code 1, so W&B lists it as failed; the state
also is a tag and `state` in the configuration, by which the table of runs groups.

    <folder>/wandb/   the client's folders; `wandb leet <folder>/wandb` shows them without an account
             data/    tables on their way, for `wandb sync`
"""

import contextlib
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from lab.store.run_record import Summary
from lab.track.dashboards import SAMPLE_COLUMNS, Card, final
from lab.track.metrics_tail import StepRow

if TYPE_CHECKING:
    from wandb.sdk.wandb_run import Run

INIT_SECONDS = 20.0  # how long W&B may take to accept a run
UPLOAD_SECONDS = 60.0  # how long W&B may take to receive the rest of a run when it ends


def restart_client() -> None:
    """Make the client forget its runs: it refuses to open, even offline, an id that failed before."""
    with contextlib.suppress(Exception):
        import wandb

        wandb.teardown(exit_code=1)


def open(card: Card, *, folder: Path, mode: str) -> "WandbRun":
    """Show a run at W&B, as `mode` says online or offline; one that was there before goes on."""
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
        tags=list(card.tags),
        name=card.name,
        config=dict(card.config),
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
    return WandbRun(run, card, mode)


class WandbRun:
    """A run open at W&B."""

    def __init__(self, run: "Run", card: Card, mode: str):
        self._run, self._card = run, card
        # Online only the server knows what has arrived.
        self.next_step = run.starting_step if mode == "online" else None
        # A killed client loses the rows it had not written yet.
        self.segment = f"wandb/{Path(run.dir).parent.name}" if mode == "offline" else None

    def log(self, row: StepRow) -> None:
        import wandb

        shown: dict[str, object] = {"tokens": row.tokens, **row.values}
        if row.samples:
            rows = self._card.sample_rows(row.samples)
            shown |= {"samples": wandb.Table(columns=list(SAMPLE_COLUMNS), data=rows)}
        if row.picture:
            from PIL import Image

            shown |= {"layers": wandb.Image(Image.open(io.BytesIO(row.picture)))}
        self._run.log(shown, step=row.step)

    def close(self, summary: Summary | None) -> None:
        if summary:
            self._run.summary.update({"final/reason": None, **final(summary)})  # a failed run may be retried
            self._run.config.update({"state": summary.state}, allow_val_change=True)
            if summary.state != "finished":
                self._run.tags = (*self._card.tags, summary.state)
        self._run.finish(exit_code=0 if summary and summary.state == "finished" else 1)
