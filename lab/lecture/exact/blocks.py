"""Which statements about serial and parallel blocks are identities?

Both forms are written out from the project's attention, feed-forward layer and norm. Sources: Wang and
Komatsuzaki 2021 (GPT-J), Chowdhery et al. 2022 (PaLM, 2204.02311), section 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lab.lecture.exact import models
from lab.lecture.exact.check import Check, Checks, differ, equal, flops, normal, same

Function = Callable[[Tensor], Tensor]


def _parts() -> tuple[Any, Function, Function, Function]:
    """A block of the project with its norm, attention and feed-forward layer as plain functions."""
    model = models.model(models.run_config("norm_placement=pre"))
    block = model.blocks[0]
    return (
        block,
        block.attention_placement.before,
        lambda x: block.attention(x, model.position, diagnostics=False)[0],
        block.ffn.network,
    )


@torch.no_grad()
def fusion() -> list[Check]:
    """The checks of parallel-fusion-exact: one inward and one outward matrix give the parallel block."""
    block, norm, attention, ffn = _parts()
    x, a, f = normal(2, 16, models.SHAPE.d_model), block.attention, block.ffn
    position = models.model(models.run_config("norm_placement=pre")).position
    inward = torch.cat([a.q.weight, a.k.weight, a.v.weight, f.gate.weight, f.up.weight])
    outward = torch.cat([a.out.weight, f.down.weight], dim=1)
    widths = [a.q.weight.shape[0]] * 3 + [f.up.weight.shape[0]] * 2

    def unfused() -> Tensor:
        return x + attention(norm(x)) + ffn(norm(x))

    def fused() -> Tensor:
        q, k, v, gate, up = F.linear(norm(x), inward).split(widths, dim=-1)
        q, k, v = (part.unflatten(-1, (-1, a.head_dim)).transpose(1, 2) for part in (q, k, v))
        q, k = position.rotate(q, k)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        both = torch.cat([mixed.transpose(1, 2).flatten(2), f.activation(gate) * up], dim=-1)
        return x + F.linear(both, outward)

    count = models.parameters(a) + models.parameters(f)
    text = "one norm, one inward and one outward product give the parallel block"
    return [
        same(text, fused(), unfused(), notes="holds"),
        equal("weights, apart and fused", count, inward.numel() + outward.numel()),
        equal("FLOPs of matrix products, apart and fused", flops(unfused), flops(fused)),
    ]


@torch.no_grad()
def printed_serial() -> list[Check]:
    """The checks of serial-printed-formula: the block that the notes print is not the serial one."""
    block, norm, attention, ffn = _parts()
    x = normal(2, 16, models.SHAPE.d_model)
    y = x + attention(norm(x))
    second = block.ffn_placement.before
    serial = y + ffn(second(y))
    printed = x + ffn(second(y))
    model = models.model(models.run_config("norm_placement=pre"))
    ours, *_ = model.blocks[0](x, model.position, drop=lambda t, site: t, diagnostics=False)
    return [
        same("the serial block is h = x + Attn(LN x), y = h + MLP(LN h)", ours, serial),
        differ(
            "the printed x + MLP(LN(x + Attn(LN x))) is not the serial block",
            serial,
            printed,
            least=0.1,
            notes="fails",
            note=(
                "The notes print it as PaLM does. There attention reaches the stream through the "
                "feed-forward layer alone."
            ),
        ),
        same("serial minus printed = Attn(LN x)", serial - printed, attention(norm(x))),
    ]


CLAIMS: dict[str, Checks] = {"parallel-fusion-exact": fusion, "serial-printed-formula": printed_serial}
