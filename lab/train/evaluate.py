"""Validation loss in nats a token and in bits a byte of original text, and the excess over the corpus's known floor.

Excess and floor are over the part of the text whose probability is known: the first row of each story, to its last
whole word. How much that is depends on the tokenizer; what the loss is taken over does not.
"""

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
) -> dict[str, float | int | None]:
    """Plain cross-entropy with nothing dropped.

    val/loss (nats a token), val/bpb and val/bytes are over every scored token; val/excess_bpb and val/floor_bpb over the
    exact ones, None where there are none.
    """
    nats, exact_nats, floor, tokens, bytes_, exact_bytes = 0.0, 0.0, 0.0, 0, 0, 0
    for batch in batches:
        rows = torch.from_numpy(batch.tokens).to(device)
        with autocast:
            logits = forward(rows[:, :-1]).logits
        losses = F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten(), reduction="none")
        scored, exact = (torch.from_numpy(mask).to(device).flatten() for mask in (batch.scored, batch.exact))
        nats += float(losses[scored].double().sum())
        exact_nats += float(losses[exact].double().sum())
        floor += batch.floor_nats or 0.0
        tokens += int(batch.scored.sum())
        bytes_ += batch.bytes
        exact_bytes += batch.exact_bytes
    exact_bits = math.log(2) * exact_bytes
    return {
        "val/loss": nats / tokens,
        "val/bpb": nats / (math.log(2) * bytes_),
        "val/bytes": bytes_,
        "val/excess_bpb": (exact_nats - floor) / exact_bits if exact_bytes else None,
        "val/floor_bpb": floor / exact_bits if exact_bytes else None,
    }
