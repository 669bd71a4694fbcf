"""What does each prediction of a model cost? Nats from its logits, with one exponential of each for the loss,
the entropy and the ends of words.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

TOGETHER = 256  # predictions: what is computed from their logits stays in the processor's cache
SMALLEST = 1e-30  # a probability, relative to the likeliest token's, that float32 holds with all its digits


class Surprisal(NamedTuple):
    """float64 [rows, T] each, in nats: what the next token costs, the entropy of its prediction, and
    -ln P(a word ends before it).
    """

    token: np.ndarray
    entropy: np.ndarray
    end: np.ndarray


def surprisal(logits: Tensor, targets: Tensor, starts_word: Tensor) -> Surprisal:
    """Of next-token logits [rows, T, vocab_size] and the tokens that came, int64 [rows, T]. starts_word: bool
    [vocab_size], the tokens before which a word has ended.
    """
    parts = zip(logits.flatten(0, 1).split(TOGETHER), targets.flatten().split(TOGETHER), strict=True)
    found = torch.cat([_of_part(part.float(), tokens, starts_word) for part, tokens in parts], dim=1)
    return Surprisal(*found.view(3, *targets.shape).cpu().double().numpy())


def _of_part(logits: Tensor, targets: Tensor, starts_word: Tensor) -> Tensor:
    """float32 [3, n]: the fields of a Surprisal for logits [n, vocab_size]."""
    below = logits - logits.amax(-1, keepdim=True)
    weights = below.exp()
    mass = weights.sum(-1)
    total = mass.log()
    token = total - below.gather(-1, targets[:, None]).squeeze(-1)
    starting = weights @ starts_word.float()
    end = total - starting.log()
    entropy = total - below.mul_(weights).sum(-1) / mass
    if (small := starting < SMALLEST).any():
        end[small] = end_nats(logits[small], starts_word)
    return torch.stack((token, entropy, end))


def end_nats(logits: Tensor, starts_word: Tensor) -> Tensor:
    """[n]: -ln P(a word ends before the next token), from its logits [n, vocab_size]."""
    return torch.logsumexp(logits, dim=-1) - torch.logsumexp(logits[:, starts_word], dim=-1)
