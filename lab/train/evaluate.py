"""Validation loss in nats a token and in bits a byte of original text, and the excess over the corpus's known floor."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.nn.functional as F

from lab.data.shards import EvaluationBatch


@torch.no_grad()
def evaluate(
    forward: Callable[..., Any],
    batches: Sequence[EvaluationBatch],
    *,
    device: str,
    autocast: AbstractContextManager,
) -> dict[str, float | None]:
    """Plain cross-entropy over every scored token, with nothing dropped: val/loss, val/bpb, val/excess_bpb (None without a floor)."""
    nats, tokens, bytes_, floor = 0.0, 0, 0, 0.0
    exact = all(batch.floor_nats is not None for batch in batches)
    for batch in batches:
        rows, scored = torch.from_numpy(batch.tokens).to(device), torch.from_numpy(batch.scored).to(device)
        with autocast:
            logits = forward(rows[:, :-1]).logits
        losses = F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten(), reduction="none")
        nats += float(losses[scored.flatten()].double().sum())
        tokens += int(batch.scored.sum())
        bytes_ += batch.bytes
        floor += batch.floor_nats or 0.0
    bits_per_byte = 1 / (math.log(2) * bytes_)
    excess = (nats - floor) * bits_per_byte if exact else None
    return {"val/loss": nats / tokens, "val/bpb": nats * bits_per_byte, "val/excess_bpb": excess}
