"""How do tokens read from earlier tokens?

Contract: [B, T, d_model] -> [B, T, d_model], causal multi-head attention (Vaswani et al. 2017, section 3.2) without
biases. num_heads * head_dim need not equal d_model. Options:
- qk_norm: each head's q and k pass an RMSNorm over head_dim, gains shared by the heads, before positions rotate them.
  Dehghani et al. 2023 (2302.05442) with LayerNorm; RMSNorm as in Qwen3 and Gemma 3.
- softcap c: scores become c tanh(score / c) before bias and mask. Gemma 2 (2408.00118), section 2.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.config import Shape
from lab.model.linear import Linear, ResidualLinear, ValueLinear
from lab.model.norm import RMSNorm
from lab.model.position import Position

Kernel = Literal["sdpa", "masked"]

QK_NORM_EPS = 1e-6  # as in Qwen3, Gemma 3 and OLMo 2


def kernel_for(position: Position, *, softcap: float | None) -> Kernel:
    """ "sdpa" is torch's fused attention; scores that are capped or biased need the "masked" softmax written out."""
    return "sdpa" if softcap is None and position.bias(1) is None else "masked"


class Attention(nn.Module):
    def __init__(self, shape: Shape, *, qk_norm: bool, softcap: float | None, kernel: Kernel):
        super().__init__()
        self.num_heads, self.softcap, self.kernel = shape.num_heads, softcap, kernel
        width = shape.num_heads * shape.head_dim
        # Three matrices: one fused matrix measured no faster on a CPU, and each keeps its own d_in and d_out.
        self.q = Linear(shape.d_model, width)
        self.k = Linear(shape.d_model, width)
        self.v = ValueLinear(shape.d_model, width)
        self.out = ResidualLinear(width, shape.d_model)
        self.q_norm = RMSNorm(shape.head_dim, eps=QK_NORM_EPS) if qk_norm else None
        self.k_norm = RMSNorm(shape.head_dim, eps=QK_NORM_EPS) if qk_norm else None

    def forward(
        self, x: Tensor, position: Position, *, diagnostics: bool
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The output, and with `diagnostics` the statistic "attention/logit_max" (see `logit_max`)."""
        q, k, v = (linear(x).unflatten(-1, (self.num_heads, -1)) for linear in (self.q, self.k, self.v))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        q, k = position.rotate(q, k)
        if self.kernel == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = masked_attention(q, k, v, softcap=self.softcap, bias=position.bias(x.shape[1]))
        stats = {"attention/logit_max": logit_max(q.detach(), k.detach())} if diagnostics else {}
        return self.out(y.transpose(1, 2).flatten(2)), stats


def masked_attention(
    q: Tensor, k: Tensor, v: Tensor, *, softcap: float | None, bias: Tensor | None
) -> Tensor:
    """Causal attention with the scores written out; q, k, v and the result are [B, num_heads, T, head_dim]."""
    scores = scaled_scores(q, k)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    return scores.masked_fill(future(q), -math.inf).softmax(-1) @ v


def logit_max(q: Tensor, k: Tensor) -> Tensor:
    """The largest |q.k| / sqrt(head_dim) that a token meets in its past, before soft-cap and bias. A scalar."""
    return scaled_scores(q, k).masked_fill(future(q), 0.0).abs().amax()


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    return (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)


def future(q: Tensor) -> Tensor:
    """True where the key (column) stands later than the query (row), [T, T]."""
    return torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
