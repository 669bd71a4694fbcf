"""How are attention's products computed?

Contract: q [B, num_heads, T, head_dim], k and v [B, num_kv_heads, T, head_dim] -> [B, num_heads, T,
head_dim]. All kernels compute softmax(mask(cap(q.k / sqrt(head_dim)) + bias)) v and differ in rounding alone.
- sdpa: torch's fused attention, with its causal flag where all of the past is read, else with a mask that
  holds the bias.
- flex: FlexAttention, which compiles cap, bias and mask into the kernel and skips what is masked; CUDA alone,
  for it has no gradients on a CPU. Dong et al. 2024 (2412.05496).
- masked: the scores written out; for what neither of the two can do.
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from lab.model.pattern import LayerRule, Sees
from lab.model.position import Position

Kernel = Literal["sdpa", "flex", "masked"]
Read = Callable[[Tensor], Tensor | None]


def kernel_for(position: Position, rule: LayerRule, *, softcap: float | None, device: str) -> Kernel:
    """The fastest kernel that is exact for this layer on this kind of device."""
    biased = rule.position and position.acts("bias")
    if rule.position and position.acts("read"):
        return "masked"
    trained_bias = biased and next(position.parameters(), None) is not None
    if device == "cuda" and not trained_bias and (biased or softcap is not None or rule.sees is not None):
        return "flex"
    return "sdpa" if softcap is None else "masked"


def sdpa(q: Tensor, k: Tensor, v: Tensor, *, bias: Tensor | None, sees: Sees | None) -> Tensor:
    """Torch's fused attention, for scores without a soft-cap."""
    grouped = q.shape[1] != k.shape[1]
    if grouped and not q.is_cuda:
        # Sharing keys inside the kernel takes 1.6 times as long as copies on a CPU, forward and backward.
        k, v, grouped = for_each_head(k, q), for_each_head(v, q), False
    if bias is None and sees is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
    mask = ~hidden(q, sees) if bias is None else bias.masked_fill(hidden(q, sees), -math.inf).to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped)


def masked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    softcap: float | None,
    bias: Tensor | None,
    sees: Sees | None,
    read: Read,
) -> Tensor:
    """The scores written out; `read` adds what the weights read beside the values."""
    scores = scaled_scores(q, for_each_head(k, q))
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    weights = scores.masked_fill(hidden(q, sees), -math.inf).softmax(-1)
    y, beside = weights @ for_each_head(v, q), read(weights)
    return y if beside is None else y + beside


def flex(
    q: Tensor, k: Tensor, v: Tensor, *, softcap: float | None, bias: Tensor | None, sees: Sees | None
) -> Tensor:
    """FlexAttention, with the soft-cap, the bias and the mask compiled in."""
    compiling = torch.compiler.is_compiling()
    blocks = (_blocks.__wrapped__ if compiling else _blocks)(sees, q.shape[-2], q.device)
    attend = _compiled_flex() if q.is_cuda and not compiling else _flex
    # Under autocast rotated queries and keys are fp32, and FlexAttention needs one dtype.
    q, k, modify = q.to(v.dtype), k.to(v.dtype), score_mod(softcap, bias)
    return attend(q, k, v, score_mod=modify, block_mask=blocks, enable_gqa=True)


def score_mod(softcap: float | None, bias: Tensor | None) -> Callable[..., Tensor]:
    """FlexAttention's form of cap and bias.

    It maps one score and its batch, head, query and key index to the score.
    """
    if bias is not None and bias.dim() == 4:
        bias = bias[0]

    def modify(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        if softcap is not None:
            score = softcap * torch.tanh(score / softcap)
        return score if bias is None else score + bias[head, query, key]

    return modify


def mask_mod(sees: Sees | None) -> Callable[..., Tensor]:
    """FlexAttention's form of the mask: from batch, head, query and key index to whether the key is read."""

    def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        past = query >= key
        return past if sees is None else past & sees(query, key)

    return visible


@lru_cache(maxsize=64)
def _blocks(sees: Sees | None, length: int, device: torch.device) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    return create_block_mask(mask_mod(sees), None, None, length, length, device=device)


def _flex(*args: Any, **options: Any) -> Any:
    # Imported where it is used: it loads torch's compiler.
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(*args, **options)


@cache
def _compiled_flex() -> Callable[..., Any]:
    return torch.compile(_flex)


def logit_max(q: Tensor, k: Tensor, sees: Sees | None) -> Tensor:
    """The largest |q.k| / sqrt(head_dim) that a token meets in what it reads, a scalar.

    It is taken before the soft-cap and the bias.
    """
    # In place: a copy of [B, num_heads, T, T] would cost more than all else here.
    scores = scaled_scores(q, for_each_head(k, q))
    scores = scores.tril_() if sees is None else scores.masked_fill_(hidden(q, sees), 0.0)
    least, most = torch.aminmax(scores)
    return torch.maximum(most, -least)


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    """q.k / sqrt(head_dim) of every query and key, [B, num_heads, T, T]."""
    return (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)


def for_each_head(k: Tensor, q: Tensor) -> Tensor:
    """Keys or values [B, num_kv_heads, T, head_dim] -> [B, num_heads, T, head_dim].

    Head h reads group h // (heads a group).
    """
    return k if k.shape[1] == q.shape[1] else k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)


def hidden(q: Tensor, sees: Sees | None) -> Tensor:
    """True where the key (column) is not read by the query (row), [T, T].

    It is later, or the pattern leaves it out.
    """
    length = q.shape[-2]
    later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    if sees is None:
        return later
    at = torch.arange(length, device=q.device)
    return later | ~sees(at[:, None], at)
