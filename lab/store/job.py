"""What a worker needs to know to train one run: plain values all the way, so that a job travels as JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from lab.config.schema import RunConfig
from lab.config.strict import absent
from lab.store.run_record import Counts, Manifest, Parent, Provenance


@dataclass(frozen=True)
class JobManifest:
    """What the manifest of the run will say beside its id and provenance."""

    group: str
    job_type: str
    tags: tuple[str, ...]
    counts: Counts
    tokenizer_hash: str | None = absent(None)
    parent: Parent | None = absent(None)

    def started(self, run_id: str, *, numerics: int, provenance: Provenance) -> Manifest:
        """The manifest of the run that is trained by such code on such a machine."""
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return Manifest(run_id=run_id, numerics=numerics, provenance=provenance, **own)


@dataclass(frozen=True)
class Job:
    """One run to train: its configuration, the folders of store and shards, and how it is carried out.

    keep_every: checkpoints at its multiples, in steps, stay, and so do those of keep_steps. until_step: where
    the run is to pause, to be continued or not.
    """

    config: RunConfig
    run_id: str
    store: str
    shards: str
    device: str
    threads: int
    checkpoint_seconds: float
    keep_every: int | None
    manifest: JobManifest
    until_step: int | None = absent(None)
    keep_steps: tuple[int, ...] = absent(())

    @property
    def tokens(self) -> int:
        """Tokens that the job trains the run on, from its first step to its last or its pause."""
        steps = self.until_step or self.config.steps
        return steps * self.config.rows * self.config.shape.context_length
