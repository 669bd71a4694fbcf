"""How does the loss on the same tokens change with the length of the context, up to and beyond the trained
one?

The validation text in sequence, documents one after the other, is cut into blocks of context_length
targets. At length k the model reads the k * context_length tokens up to the block's last target and
nothing else, and is scored on the block: the targets, and so their bytes, are the same at every length, a
target at place i of the block has (k - 1) context_length + i tokens before it, and each block has the full
context of the greatest length before it. At length 1 that is the usual evaluation in rows that don't
overlap, whose first targets know little: a lower loss at length 2 than at 1 may come of that alone (Press
et al. 2021, 2108.12409, section 2 and appendix B), a higher one does not.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import torch
import torch.nn.functional as F

from lab.config.strict import ConfigError
from lab.data.shards import Shards
from lab.model.transformer import Transformer

MOST_BLOCKS = 32
"""Blocks scored, spread evenly over the validation text."""


def name_of(length: int) -> str:
    return f"val/bpb/length_{length}"


def block_ends(tokens: int, context_length: int, greatest: int) -> np.ndarray:
    """int64 [blocks]: where each block's last target stands in a stream of `tokens`; none where the text
    is too short.
    """
    blocks = max(0, (tokens - 1) // context_length - (greatest - 1))
    chosen = np.unique(np.linspace(0, blocks - 1, min(blocks, MOST_BLOCKS)).round().astype(np.int64))
    return (greatest + chosen) * context_length


@torch.no_grad()
def evaluate_lengths(
    model: Transformer,
    shards: Shards,
    lengths: Sequence[int],
    *,
    rows: int,
    device: str,
    autocast: AbstractContextManager,
) -> dict[str, float | None]:
    """`name_of(k)`, bits a byte of the targets' text, for each k of `lengths`; None where it is `undefined`.

    rows: of the trained length that are computed together, fewer of longer ones.
    """
    trained, stream = model.context_length, shards.validation_stream
    values: dict[str, float | None] = dict.fromkeys(map(name_of, lengths))
    unknown = undefined(model, shards, lengths)
    ends = block_ends(len(stream), trained, max(lengths, default=1))
    bits = math.log(2) * int(shards.token_bytes[stream[ends[:, None] - np.arange(trained)]].sum())
    for k in lengths:
        if name_of(k) in unknown:
            continue
        together = max(1, rows // k)
        parts = np.split(ends, range(together, len(ends), together))
        with _extended(model, k):
            nats = sum(
                _nats(model, stream[part[:, None] + np.arange(-k * trained, 1)], trained, device, autocast)
                for part in parts
            )
        values[name_of(k)] = nats / bits
    return values


def undefined(model: Transformer, shards: Shards, lengths: Sequence[int]) -> dict[str, str]:
    """`name_of(k)` and why the loss at that length is not defined."""
    tokens, needed = len(shards.validation_stream), max(lengths, default=1) * model.context_length + 1
    if tokens < needed:
        return dict.fromkeys(
            map(name_of, lengths), f"the validation text has {tokens} tokens, and {needed} are needed."
        )
    reasons = {}
    for k in lengths:
        try:
            with _extended(model, k):
                pass
        except ConfigError as error:
            reasons[name_of(k)] = str(error)
    return reasons


@contextmanager
def _extended(model: Transformer, times: int) -> Iterator[None]:
    """A model whose rows may be `times` as long as it was trained with."""
    trained = model.context_length
    if times > 1:
        model.extend(times * trained)
    try:
        yield
    finally:
        if times > 1:
            model.extend(trained)


@torch.no_grad()
def _nats(
    model: Transformer, windows: np.ndarray, scored: int, device: str, autocast: AbstractContextManager
) -> float:
    """The summed loss on the last `scored` tokens of windows [rows, T + 1]."""
    rows = torch.from_numpy(windows.astype(np.int64)).to(device)
    with autocast:
        logits = model(rows[:, :-1]).logits[:, -scored:]
    losses = F.cross_entropy(logits.float().flatten(0, 1), rows[:, -scored:].flatten(), reduction="none")
    return float(losses.double().sum())
