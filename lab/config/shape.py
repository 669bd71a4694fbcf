"""Width, depth and heads as the rules of `size`, `aspect`, `heads` and `attention` ask for them, known
without a model.
"""

import math
from collections.abc import Iterator

from lab.config.schema import Config


def width_and_depth(config: Config) -> tuple[int, int]:
    """d_model and num_layers: the size's, or those whose quotient is nearest to the asked aspect at the
    size's body parameters, 12 L d^2 (Kaplan et al. 2020, arXiv:2001.08361).
    """
    size, asked = config.size, config.aspect.value
    if asked is None:
        return size.d_model, size.num_layers
    step, body = config.heads.head_dim or size.head_dim, size.num_layers * size.d_model**2
    widths = range(step, step * (2 + round((body * asked) ** (1 / 3) / step)), step)
    candidates = [(d, depth) for d in widths if (depth := round(body / d**2)) >= 1]
    return min(candidates, key=lambda c: abs(math.log(c[0] / c[1] / asked)))


def heads(config: Config, d_model: int) -> tuple[int, int]:
    """num_heads and head_dim at a width; they make sense where `misfits` finds nothing."""
    asked = config.heads
    head_dim = asked.head_dim or (d_model // asked.value if asked.value else config.size.head_dim)
    return asked.value or d_model // head_dim, head_dim


def misfits(config: Config, d_model: int) -> Iterator[tuple[str, str]]:
    """What of the heads does not fit a width, as (key, sentence)."""
    asked, (num_heads, head_dim) = config.heads, heads(config, d_model)
    width = f"d_model {d_model}" + (f" of aspect {config.aspect.value:g}" if config.aspect.value else "")
    divides = asked.value is None or d_model % asked.value == 0
    if not asked.head_dim and not divides:
        fits = [n for n in range(1, max(1, d_model // 2) + 1) if d_model % n == 0]
        near = sorted(sorted(fits, key=lambda n: abs(n - num_heads))[:3])
        yield (
            "heads.value",
            f"does not divide {width}. Use {' or '.join(map(str, near))}, or set heads.head_dim.",
        )
    elif asked.value is None and d_model % head_dim:
        key = "heads.head_dim" if asked.head_dim else "size.d_model"
        yield key, f"{width} is not a multiple of the head size {head_dim}. Set heads.value too."
    if config.position.get("theta") is not None and (asked.head_dim or divides) and head_dim % 2:
        yield "heads.head_dim", f"head size {head_dim} is odd; rotary positions need an even one."
    kv_heads = config.attention.num_kv_heads
    if kv_heads and num_heads % kv_heads:
        shared = " or ".join(str(n) for n in range(1, num_heads + 1) if num_heads % n == 0)
        yield (
            "attention.num_kv_heads",
            f"does not divide the {num_heads} heads. Use {shared}, or another heads.value.",
        )
