"""A whole run small enough to train in a second: tokens drawn from a fixed rule, written as shards without
a tokenizer.
"""

import dataclasses
from pathlib import Path
from typing import Any

from lab.config import schema as c
from lab.train.worker import work
from tests.tiny_model import SHAPE, tiny

GRAMMAR = c.Grammar(1.0, 1.1, 10000, 3, 3, 5.0, 2, 0.0, 1)
DATA = c.Data("stories", None, None, 0.05, "text", stories=60, validation_stories=12, seed=0, grammar=GRAMMAR)


def tiny_run(**changes: Any) -> c.RunConfig:
    """The baseline recipe on 257 bytes of vocabulary: 12 steps of 4 rows of 24 tokens."""
    whole: dict[str, Any] = dict(
        regularization=c.Regularization(dropout=0.0, weight_decay=0.1, label_smoothing=0.0),
        optimizer=c.Optimizer("adamw", lr=1e-2, beta1=0.9, beta2=0.95, eps=1e-8, grad_clip=1.0),
        schedule=c.Schedule("cosine", warmup_fraction=0.1, final_fraction=0.1, decay_fraction=0.0),
        data=DATA,
        vocab=c.Vocab("bytes", 257),
        precision=c.Precision("float32", compile=False),
        evaluation=c.Evaluation(points=3, documents=4, rows=2, choices=8, samples=4, lengths=[]),
        monitor=c.Monitor(4, 3, 4.0, divergence_factor=2.0, divergence_patience=3),
        steps=12,
        rows=4,
        micro_rows=4,
        data_fingerprint="test",
    )
    return tiny(**{**whole, **changes})


def job(run: c.RunConfig, *, run_id: str, store: Path, shards: Path, **changes: Any) -> dict[str, Any]:
    manifest = {
        "group": "test",
        "job_type": "arm",
        "tags": [],
        "counts": {"flops_per_token": 1, "parameters": 1},
    }
    return {
        "config": dataclasses.asdict(run),
        "run_id": run_id,
        "store": str(store),
        "shards": str(shards),
        "device": "cpu",
        "threads": 1,
        "checkpoint_seconds": 0.0,
        "keep_every": None,
        "manifest": manifest,
        **changes,
    }


PROVENANCE = {"torch": "2.13.0", "device_kind": "cpu", "source_hash": "a"}


def trained(run: c.RunConfig, *, run_id: str, store: Path, shards: Path) -> None:
    """Train in this process, with the worker's own error handling."""
    work(job(run, run_id=run_id, store=store, shards=shards))


__all__ = ["DATA", "GRAMMAR", "PROVENANCE", "SHAPE", "job", "tiny_run", "trained"]
