"""A whole run small enough to train in a second: tokens drawn from a fixed rule, written as shards without
a tokenizer.
"""

import dataclasses
from pathlib import Path
from typing import Any

from lab.config import schema as c
from lab.store.identity import NUMERICS
from lab.store.job import Job, JobManifest
from lab.store.run_record import Counts, Manifest, Provenance
from lab.train.worker import work
from tests.tiny_model import SHAPE, choice, tiny

GRAMMAR = c.Grammar(1.0, 1.1, 10000, 3, 3, 5.0, 2, 0.0, 1)
DATA = c.Data("stories", None, None, 0.05, "text", stories=60, validation_stories=12, seed=0, grammar=GRAMMAR)


def optimizer_named(name: str, *, lr: float = 1e-2, **own: Any) -> c.Optimizer:
    """The optimizer as its YAML gives it, at a rate for twelve steps."""
    problems: list[str] = []
    found = c.Optimizer.from_plain(choice("optimizer", name) | {"lr": lr} | own, problems=problems)
    assert not problems, problems
    return found


def tiny_run(**changes: Any) -> c.RunConfig:
    """The baseline recipe on 257 bytes of vocabulary: 12 steps of 4 rows of 24 tokens."""
    whole: dict[str, Any] = dict(
        regularization=c.Regularization(dropout=0.0, weight_decay=0.1, label_smoothing=0.0),
        optimizer=c.Optimizer(
            "adamw", lr=1e-2, grad_clip=1.0, own={"beta1": 0.9, "beta2": 0.95, "eps": 1e-8}
        ),
        schedule=c.Schedule("cosine", warmup_fraction=0.1, final_fraction=0.1),
        data=DATA,
        vocab=c.Vocab("bytes", 257),
        precision=c.Precision("float32", compile=False),
        evaluation=c.Evaluation(points=3, documents=4, rows=16, choices=8, samples=4, lengths=[]),
        monitor=c.Monitor(4, 3, 4.0, divergence_factor=2.0, divergence_patience=3),
        steps=12,
        rows=4,
        micro_rows=4,
        data_fingerprint="test",
    )
    return tiny(**{**whole, **changes})


COUNTS = Counts(parameters=1, body_parameters=1, embedding_parameters=0, flops_per_token=1)
PROVENANCE = Provenance(
    commit=None,
    clean=None,
    source_hash="a",
    python="3.11",
    torch="2.13.0",
    device_kind="cpu",
    device="a CPU",
    cores=1,
    threads=1,
    started="2026-01-01T00:00:00+00:00",
)


def job(run: c.RunConfig, *, run_id: str, store: Path, shards: Path, **changes: Any) -> Job:
    """The run as a job; changes may be fields of the job or of its manifest."""
    manifest: dict[str, Any] = dict(group="test", job_type="arm", tags=(), counts=COUNTS)
    of_manifest = {f.name for f in dataclasses.fields(JobManifest)}
    manifest |= {name: changes.pop(name) for name in of_manifest & changes.keys()}
    whole: dict[str, Any] = dict(
        config=run,
        run_id=run_id,
        store=str(store),
        shards=str(shards),
        device="cpu",
        threads=1,
        checkpoint_seconds=0.0,
        keep_every=None,
        manifest=JobManifest(**manifest),
    )
    return Job(**{**whole, **changes})


def manifest(run_id: str = "r", *, provenance: Provenance = PROVENANCE, **changes: Any) -> Manifest:
    """What a store notes when it begins the run."""
    of_job = job(tiny_run(), run_id=run_id, store=Path(), shards=Path(), **changes).manifest
    return of_job.started(run_id, numerics=NUMERICS, provenance=provenance)


def trained(
    run: c.RunConfig, *, run_id: str, store: Path, shards: Path, checkpoint_seconds: float = 0.0
) -> None:
    """Train in this process, with the worker's own error handling; by default every step is saved."""
    work(job(run, run_id=run_id, store=store, shards=shards, checkpoint_seconds=checkpoint_seconds))


__all__ = ["COUNTS", "DATA", "GRAMMAR", "PROVENANCE", "SHAPE", "job", "manifest", "tiny_run", "trained"]
