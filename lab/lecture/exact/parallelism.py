"""Which statements about splitting a model over devices are identities or counts?

Devices are simulated: each rank holds its slice of the project's layer, and sums are what an all-reduce
returns. Sources: Shoeybi et al. 2019 (1909.08053), section 3; Huang et al. 2019 (1811.06965), section 2.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lab.lecture.exact import models
from lab.lecture.exact.check import Check, Checks, close, equal, normal, same
from lab.model.activation import VARIANTS
from lab.model.ffn import FFN


def ring_all_reduce(parts: list[Tensor]) -> tuple[list[Tensor], int]:
    """Every rank's sum, and how many elements one rank sends: reduce-scatter and all-gather around a ring."""
    ranks = len(parts)
    chunks = [list(part.flatten().clone().chunk(ranks)) for part in parts]
    sent = 0
    for step in range(ranks - 1):
        moving = [chunks[rank][(rank - step) % ranks].clone() for rank in range(ranks)]
        sent += moving[0].numel()
        for rank, chunk in enumerate(moving):
            at = (rank - step) % ranks
            chunks[(rank + 1) % ranks][at] = chunks[(rank + 1) % ranks][at] + chunk
    for step in range(ranks - 1):
        moving = [chunks[rank][(rank + 1 - step) % ranks].clone() for rank in range(ranks)]
        sent += moving[0].numel()
        for rank, chunk in enumerate(moving):
            chunks[(rank + 1) % ranks][(rank + 1 - step) % ranks] = chunk
    return [torch.cat(of).view_as(parts[0]) for of in chunks], sent


def pipeline_bubble(stages: int, batches: int) -> float:
    """Idle share of a pipeline that runs all forward passes first, every pass taking one unit a stage."""
    ends: dict[tuple[str, int, int], int] = {}
    free = [0] * stages
    for batch in range(batches):
        for stage in range(stages):
            start = max(free[stage], ends.get(("f", stage - 1, batch), 0))
            free[stage] = ends["f", stage, batch] = start + 1
    for batch in range(batches):
        for stage in reversed(range(stages)):
            start = max(free[stage], ends.get(("b", stage + 1, batch), 0))
            free[stage] = ends["b", stage, batch] = start + 1
    return 1 - 2 * batches / max(free)


@torch.no_grad()
def tensor_parallel() -> list[Check]:
    """The checks of tp-allreduce-exact: layers split over ranks, and the idle time of a pipeline."""
    d, hidden, ranks = 48, 64, 4
    x, checks = normal(2, 12, d), []
    for name in ("gelu", "swiglu"):
        whole = FFN(d, hidden, VARIANTS[name], False).double()
        for number, parameter in enumerate(whole.parameters()):
            parameter.data = normal(*parameter.shape, seed=number) / parameter.shape[1] ** 0.5
        parts = []
        for rank in range(ranks):
            columns = slice(rank * hidden // ranks, (rank + 1) * hidden // ranks)
            up = F.linear(x, whole.up.weight[columns])
            inner = (
                whole.activation(up)
                if whole.gate is None
                else whole.activation(F.linear(x, whole.gate.weight[columns])) * up
            )
            parts.append(F.linear(inner, whole.down.weight[:, columns]))
        summed, sent = ring_all_reduce(parts)
        checks.append(
            same(
                f"{name} layer split over 4 ranks, one all-reduce: the whole layer",
                summed[0],
                whole.network(x),
                notes="holds",
            )
        )
    checks.append(
        equal(
            "every rank ends with the same sum", 0, sum(not torch.equal(part, summed[0]) for part in summed)
        )
    )
    checks.append(
        equal("elements a rank sends, 2 (p - 1) / p of b n d", 2 * (ranks - 1) * x.numel() // ranks, sent)
    )
    checks.append(
        same(
            "four attention heads split over 4 ranks, one all-reduce: the whole layer",
            *_attention(ranks),
            notes="holds",
        )
    )
    wrong = [F.gelu(normal(3, seed=1)), F.gelu(normal(3, seed=2))]
    together = F.gelu(normal(3, seed=1) + normal(3, seed=2))
    checks.append(
        equal(
            "splitting rows before the activation would need a sum before it",
            True,
            float((wrong[0] + wrong[1] - together).abs().max()) > 0.01,
        )
    )
    for stages, batches in ((4, 1), (4, 8), (8, 32)):
        formula = (stages - 1) / (batches + stages - 1)
        checks.append(
            close(
                f"idle share of a pipeline of {stages} stages and {batches} micro-batches: (p - 1) / (m + "
                "p - 1)",
                formula,
                pipeline_bubble(stages, batches),
                notes="holds",
            )
        )
    return checks


def _attention(ranks: int) -> tuple[Tensor, Tensor]:
    model = models.model(models.run_config())
    attention, x = model.blocks[0].attention, normal(2, 12, models.SHAPE.d_model)
    whole, _ = attention(x, model.position, diagnostics=False)
    size, heads, parts = models.SHAPE.head_dim, models.SHAPE.num_heads // ranks, []
    for rank in range(ranks):
        own = slice(rank * heads * size, (rank + 1) * heads * size)
        q, k, v = (
            F.linear(x, part.weight[own]).unflatten(-1, (heads, size)).transpose(1, 2)
            for part in (attention.q, attention.k, attention.v)
        )
        q, k = model.position.rotate(q, k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        parts.append(F.linear(y, attention.out.weight[:, own]))
    return ring_all_reduce(parts)[0][0], whole


CLAIMS: dict[str, Checks] = {"tp-allreduce-exact": tensor_parallel}
