"""Which statements about heads, shared keys and values, and sparse patterns are counts or identities?

Sources: Bhojanapalli et al. 2020 (2002.07028), theorem 1; Shazeer 2019 (1911.02150); Ainslie et al. 2023
(2305.13245); Child et al. 2019 (1904.10509), section 4.2; Jiang et al. 2023 (2310.06825) for the reach of
windows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lab.lecture.exact import models
from lab.lecture.exact.check import Check, Checks, at_most, equal, flops, generator, normal, same
from lab.model.kernel import hidden as unread


def heads_cost() -> list[Check]:
    """The checks of heads-cost-constant: what more heads at one width cost."""
    from lab.plan.budget import counts

    counted, elements = [], []
    for heads in (1, 2, 4, 8):
        config = models.run_config(num_heads=heads, head_dim=48 // heads)
        counted.append((counts(config).parameters, counts(config).flops_per_token))
        elements.append(heads * config.shape.context_length**2)
    ratios = {r: counts(models.run_config(num_heads=4, head_dim=12 * r)).body_parameters for r in (1, 2, 4)}
    attention = 4 * 48 * 48 * models.SHAPE.num_layers
    return [
        equal(
            "parameters and FLOPs a token of 1, 2, 4 and 8 heads at one width",
            1,
            len(set(counted)),
            notes="holds",
            note="heads of d / h each",
        ),
        equal("elements of the softmax grow with the heads", [1024, 2048, 4096, 8192], elements),
        equal(
            "heads x head size of 2 d and 4 d also build, with more attention weights",
            [attention, 3 * attention],
            [ratios[2] - ratios[1], ratios[4] - ratios[1]],
            notes="holds",
        ),
    ]


def low_rank() -> list[Check]:
    """The checks of head-lowrank-rank: which attention patterns a head of a given size can show."""
    n = 64
    x = normal(n, n)
    ranks = {}
    for size in (2, 4, 8, 16, 32, 64):
        q, k = x @ normal(n, size, seed=size), x @ normal(n, size, seed=size + 1)
        ranks[size] = int(torch.linalg.matrix_rank(q @ k.T))
    drawn = -torch.rand(n, n, generator=generator(), dtype=torch.float64).clamp_min(1e-12).log()
    wanted = drawn / drawn.sum(-1, keepdim=True)  # each row uniform over all distributions
    logits = wanted.log() - wanted.log().mean(-1, keepdim=True)  # a shift of a row changes no probability
    u, s, v = torch.linalg.svd(logits)

    def fitted(size: int) -> Tensor:
        return F.softmax((u[:, :size] * s[:size]) @ v[:size], -1)

    def divergence(size: int) -> float:
        return float((wanted * (wanted.log() - fitted(size).log())).sum(-1).mean())

    found = [divergence(size) for size in (2, 4, 8, 16, 32)]
    return [
        equal(
            "rank of a head's scores of 64 tokens, by head size",
            {str(s): s for s in ranks},
            {str(s): r for s, r in ranks.items()},
            notes="holds",
            note="of the scores: softmax usually restores full rank",
        ),
        equal(
            "rank of log P of a generic pattern, up to a shift of each row",
            n - 1,
            int(torch.linalg.matrix_rank(logits)),
            note="so no head below size 63 can show it exactly",
        ),
        same(
            "a head of size 63 shows it exactly",
            fitted(n - 1),
            wanted,
            note="truncated to sizes 2 to 32 the divergence is "
            + ", ".join(f"{v:.3f}" for v in found)
            + " nats, a bound from above",
        ),
    ]


def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention in which query heads share key and value heads, by groups; all [B, heads, T, size]."""
    share = q.shape[1] // k.shape[1]
    return F.scaled_dot_product_attention(
        q, k.repeat_interleave(share, 1), v.repeat_interleave(share, 1), is_causal=True
    )


@torch.no_grad()
def broadcast() -> list[Check]:
    """The checks of mqa-broadcast-exact: shared keys and values are heads with tied weights."""
    b, t, h, size = 2, 10, 12, 4
    d = h * size
    x, wq = normal(b, t, d), normal(d, d, seed=1)
    checks = []

    def split(y: Tensor) -> Tensor:
        return y.unflatten(-1, (-1, size)).transpose(1, 2)

    for groups in (1, 3, 12):
        wk, wv = normal(d, groups * size, seed=2), normal(d, groups * size, seed=3)
        tied_k, tied_v = (
            w.unflatten(1, (groups, size)).repeat_interleave(h // groups, 1).flatten(1) for w in (wk, wv)
        )
        few = grouped(split(x @ wq), split(x @ wk), split(x @ wv))
        many = F.scaled_dot_product_attention(
            split(x @ wq), split(x @ tied_k), split(x @ tied_v), is_causal=True
        )
        checks.append(
            same(
                f"{groups} of 12 heads for keys and values = 12 heads with tied copies",
                few,
                many,
                notes="holds",
            )
        )
        count = 2 * d * d + wk.numel() + wv.numel()
        checks.append(
            equal(
                f"attention weights with {groups} of 12: d^2 (2 + 2 g / h)",
                d * d * (2 * h + 2 * groups) // h,
                count,
            )
        )
    return checks


@torch.no_grad()
def resource() -> list[Check]:
    """The checks of gqa-resource-type: what sharing saves, and what a window saves."""
    d, h, t, w = 64, 8, 32, 8
    size = d // h
    q = normal(1, h, t, size)

    def score_flops(groups: int) -> int:
        k = normal(1, groups, t, size)
        return flops(lambda: grouped(q, k, k))

    def projection(groups: int) -> int:
        x, wide, narrow = normal(t, d), normal(d, d), normal(d, groups * size)
        return flops(lambda: (x @ wide, x @ wide, x @ narrow, x @ narrow))

    def windowed() -> None:
        for row in range(t):
            seen = slice(max(0, row - w + 1), row + 1)
            (q[:, :, row : row + 1] @ q[:, :, seen].transpose(-1, -2)) @ q[:, :, seen]

    local = sum(4 * min(row + 1, w) * d for row in range(t))
    return [
        equal(
            "FLOPs of scores with 8, 4, 2 and 1 heads of keys: one number",
            1,
            len({score_flops(g) for g in (8, 4, 2, 1)}),
            notes="holds",
        ),
        equal(
            "FLOPs of projections saved by one head of 8, a token",
            int(4 * (1 - 1 / h) * d * d),
            (projection(8) - projection(1)) // t,
            notes="fails",
            note="so sharing saves some compute, though none on the scores",
        ),
        equal(
            "FLOPs of scores in a window of 8: 4 d a pair seen, counted on the products",
            local,
            flops(windowed),
            notes="holds",
        ),
    ]


def strided(n: int, stride: int) -> tuple[Tensor, Tensor]:
    """The two heads of Child's strided pattern: the last `stride` tokens, and every stride-th one before."""
    distance = torch.arange(n)[:, None] - torch.arange(n)[None]
    return (distance >= 0) & (distance < stride), (distance >= 0) & (distance % stride == 0)


def fixed(n: int, stride: int, columns: int) -> tuple[Tensor, Tensor]:
    """The two heads of the fixed pattern: the own block, and the last `columns` places of every block."""
    row, column = torch.arange(n)[:, None], torch.arange(n)[None]
    past = column <= row
    return past & (row // stride == column // stride), past & (column % stride >= stride - columns)


def sparse() -> list[Check]:
    """The checks of sparse-masks: two hops of the sparse patterns reach every earlier token."""
    checks = []
    for n, stride in ((64, 8), (256, 16)):
        causal = torch.ones(n, n).tril().bool()
        for name, (local, far) in (("strided", strided(n, stride)), ("fixed", fixed(n, stride, 1))):
            both = (local | far).double()
            reached = (both @ both) > 0
            lacks = int((causal & ~reached).sum())
            checks += [
                equal(
                    f"{name}, {n} tokens: pairs that two hops miss, or see in the future",
                    [0, 0],
                    [lacks, int((reached & ~causal).sum())],
                    notes="holds",
                ),
                at_most(
                    f"{name}, {n} tokens: seen pairs over 2 n sqrt(n)",
                    1.0,
                    float(both.sum()) / (2 * n * n**0.5),
                ),
            ]
    row = (strided(16, 4)[0] | strided(16, 4)[1])[11].nonzero().flatten().tolist()
    block = (fixed(16, 4, 1)[0] | fixed(16, 4, 1)[1])[10].nonzero().flatten().tolist()
    return [
        equal("strided, stride 4: what token 11 sees", [3, 7, 8, 9, 10, 11], row),
        equal(
            "fixed, stride 4: what token 10 sees",
            [3, 7, 8, 9, 10],
            block,
            note="one of the notes draws both heads into one picture",
        ),
        *checks,
    ]


def reach() -> list[Check]:
    """How far back the last output of a stack of windows depends on the input, by gradients."""
    checks = []
    for layers, window in ((1, 4), (3, 4), (4, 8)):
        d, n = 8, 64
        x = normal(n, d).requires_grad_()
        mask = torch.arange(n)[:, None] - torch.arange(n)[None]
        hidden = (mask >= window) | unread(x, None)
        y = x
        for layer in range(layers):
            weight = normal(d, d, seed=layer) / d**0.5
            scores = (y @ weight) @ y.T
            y = y + scores.masked_fill(hidden, -torch.inf).softmax(-1) @ y
        y[-1].sum().backward()
        assert x.grad is not None
        seen = int((x.grad.abs().sum(-1) > 0).sum())
        text = f"tokens that reach the last output, {layers} layers of window {window}: L (w - 1) + 1"
        checks.append(
            equal(
                text,
                layers * (window - 1) + 1,
                seen,
                notes="holds" if layers == 1 else "fails",
                note=(
                    f"the notes' window x layers is {layers * window}, right for a window that leaves the "
                    "token itself out"
                ),
            )
        )
    return checks


CLAIMS: dict[str, Checks] = {
    "heads-cost-constant": heads_cost,
    "head-lowrank-rank": low_rank,
    "mqa-broadcast-exact": broadcast,
    "gqa-resource-type": resource,
    "sparse-masks": sparse,
    "swa-receptive-field": reach,
}
