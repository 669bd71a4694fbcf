"""What training minimises: cross-entropy, the only loss that is reported, plus terms that only shape the
gradient.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Summed negative log-likelihood in nats. logits [..., vocab_size] in any dtype, computed in fp32;
    targets [...] int64.
    """
    return F.cross_entropy(logits.float().flatten(0, -2), targets.flatten(), reduction="sum")


def uniform_cross_entropy(logits: Tensor) -> Tensor:
    """Summed cross-entropy in nats of the uniform distribution against the predictions, the term that
    label smoothing adds.

    Targets smoothed by e cost (1 - e) cross_entropy + e uniform_cross_entropy (Szegedy et al. 2016,
    arXiv:1512.00567, section 7).
    """
    logits = logits.float()
    return (torch.logsumexp(logits, dim=-1) - logits.mean(dim=-1)).sum()


def log_z(logits: Tensor) -> Tensor:
    """log of the softmax normaliser per token, [...] in fp32."""
    return torch.logsumexp(logits.float(), dim=-1)


def z_loss(logits: Tensor) -> Tensor:
    """Sum over tokens of (log Z)^2, the penalty of PaLM (Chowdhery et al. 2022, 2204.02311, section 5)."""
    return log_z(logits).square().sum()
