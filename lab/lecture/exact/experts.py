"""Which statements about mixtures of experts are identities or counts?

Written out from the project's feed-forward layer; dense routing, so that nothing is dropped. Sources:
Shazeer et al. 2017 (1701.06538), Dai et al. 2024 (2401.06066).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lab.lecture.exact import models
from lab.lecture.exact.check import Check, Checks, differ, equal, normal, same
from lab.model.activation import VARIANTS
from lab.model.ffn import FFN

D, HIDDEN, EXPERTS = 32, 48, 8


def expert(seed: int, hidden: int = HIDDEN) -> FFN:
    """A gated feed-forward layer in float64 whose weights follow from the seed alone."""
    built = FFN(D, hidden, VARIANTS["swiglu"], False).double()
    for number, parameter in enumerate(built.parameters()):
        parameter.data = normal(*parameter.shape, seed=1000 * seed + number) / math.sqrt(parameter.shape[1])
    return built


def mixture(x: Tensor, router: Tensor, experts: list[FFN], *, active: int, normalised: bool = True) -> Tensor:
    """Every token to its `active` best experts, weighted by the softmax of their scores.

    x [N, d], router [d, E]; without `normalised` the softmax runs over all experts.
    """
    scores = x @ router
    best = scores.topk(active, -1)
    gates = best.values.softmax(-1) if normalised else scores.softmax(-1).gather(-1, best.indices)
    outputs = torch.stack([one.network(x) for one in experts], 1)
    return (gates[..., None] * outputs.gather(1, best.indices[..., None].expand(-1, -1, x.shape[-1]))).sum(1)


@torch.no_grad()
def exactness() -> list[Check]:
    """The checks of moe-exactness: where a mixture is the dense layer, and how many weights a token uses."""
    x, router = normal(40, D), normal(D, EXPERTS, seed=1)
    alike, others = [expert(0)] * EXPERTS, [expert(seed) for seed in range(EXPERTS)]
    dense = alike[0].network(x)
    checks = [
        same(
            f"{active} of 8 equal experts, gates summing to 1: the dense layer",
            mixture(x, router, alike, active=active),
            dense,
        )
        for active in (1, 2, 8)
    ]
    silent = [expert(seed) for seed in range(EXPERTS)]
    for one in silent:
        one.down.weight.zero_()
    choice = (x @ router).argmax(-1)
    each = torch.stack([others[int(e)].network(row) for e, row in zip(choice, x, strict=True)])
    total, used = sum(map(models.parameters, others)), 2 * models.parameters(others[0])
    return [
        *checks,
        differ(
            "gates over all experts that don't sum to 1: not the dense layer",
            mixture(x, router, alike, active=2, normalised=False),
            dense,
            least=0.01,
        ),
        same(
            "a shared expert beside experts that return nothing: the dense layer",
            dense + mixture(x, router, silent, active=2),
            dense,
        ),
        same(
            "one active expert: the best one alone", mixture(x, router, others, active=1), each, notes="holds"
        ),
        equal(
            "weights in all 8 experts, and in the 2 that a token uses",
            [8 * 3 * D * HIDDEN, 2 * 3 * D * HIDDEN],
            [total, used],
            notes="holds",
        ),
    ]


def combinations() -> list[Check]:
    """The countable part of the claim on routing to several experts."""
    pairs = ((8, 1), (16, 2), (32, 4), (64, 8))
    width = {experts: expert(0, HIDDEN * 8 // experts) for experts, _ in pairs}
    used = [active * models.parameters(width[experts]) for experts, active in pairs]
    return [
        equal(
            "ways to pick 1 of 8, 2 of 16, 4 of 32, 8 of 64",
            [8, 120, 35_960, 4_426_165_368],
            [math.comb(e, k) for e, k in pairs],
        ),
        equal("weights that a token uses in each, experts narrowed to match", 1, len(set(used))),
    ]


CLAIMS: dict[str, Checks] = {"moe-exactness": exactness, "moe-top1-vs-topk": combinations}
