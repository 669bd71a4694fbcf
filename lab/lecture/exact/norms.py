"""Which statements about normalisation are identities or bounds?

Sources: Zhang and Sennrich 2019 (1910.07467) for RMSNorm; Ding et al. 2021 (2105.13290) for norms on both
sides; Ivanov et al. 2021 (2007.00072), table 1, for the shares of operations in one BERT layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.lecture.exact import models
from lab.lecture.exact.check import Check, Checks, at_least, at_most, close, differ, equal, normal, same
from lab.model.norm import LayerNorm, RMSNorm

D, EPS = 192, 1e-5


def identities() -> list[Check]:
    """The checks of rms-ln-identities: LayerNorm, RMSNorm and the form that the notes print."""
    x = 3.0 * normal(64, D) + 1.5
    layer, rms = LayerNorm(D, True, eps=EPS).double(), RMSNorm(D, False, eps=EPS).double()
    printed = x / (x.square().sum(-1, keepdim=True) + EPS).sqrt()  # as the notes print it: no 1/d
    rescaled = x / (x.square().sum(-1, keepdim=True) + D * EPS).sqrt() * math.sqrt(D)
    size = printed.square().mean(-1).sqrt().mean().item()
    return [
        same(
            "LayerNorm(x) = RMSNorm(x - mean(x)) at gain 1 and bias 0",
            layer(x),
            rms(x - x.mean(-1, keepdim=True)),
            notes="holds",
        ),
        same("RMSNorm(x) = sqrt(d) x / sqrt(|x|^2 + d eps)", rms(x), rescaled),
        differ(
            "the printed denominator sqrt(|x|^2 + eps) is another function at gain 1",
            rms(x),
            printed,
            least=1.0,
            notes="fails",
            note=(
                "RMSNorm takes the mean of the squares. The printed sum is absorbed by a gain sqrt(d) "
                "times as large, so only by training."
            ),
        ),
        close(
            "the printed form leaves vectors of RMS 1 / sqrt(d), d = 192",
            1 / math.sqrt(D),
            size,
            within=1e-6,
            note="every sub-layer would start with an input sqrt(d) too small",
        ),
        equal(
            "parameters of LayerNorm and of RMSNorm",
            [2 * D, D],
            [models.parameters(layer), models.parameters(rms)],
            notes="holds",
        ),
    ]


def sandwich_bound() -> list[Check]:
    """|x_L| <= |x_0| + 2 L g sqrt(d) with a norm of gain g on each branch, whatever the weights."""
    layers, gain, checks = 8, 0.7, []
    for placement, bounded in (("double", True), ("pre", False)):
        config = models.run_config(f"norm_placement={placement}", num_layers=layers)
        model = models.model(config)
        d = config.shape.d_model
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "blocks" in name:
                    parameter.mul_(gain if "norm" in name else 100.0)  # weights far beyond any trained ones
        sizes: list[Tensor] = []
        model.embedding.register_forward_hook(lambda _m, _i, out, s=sizes: s.append(out.norm(dim=-1)))
        model.blocks[-1].register_forward_hook(lambda _m, _i, out, s=sizes: s.append(out[0].norm(dim=-1)))
        with torch.no_grad():
            model(models.tokens(4, 32))
        start, end = sizes
        bound = start + 2 * layers * gain * math.sqrt(d)
        share = float((end / bound).max())
        if bounded:
            text = "norms on both sides: |x_L| over |x_0| + 2 L g sqrt(d), weights 100 times too large"
            checks.append(at_most(text, 1.0, share, notes="holds"))
        else:
            text = "pre-norm alone with the same weights: |x_L| over that bound"
            checks.append(at_least(text, 10.0, share, note="a bound for double norm only"))
    return checks


@dataclass(frozen=True)
class Shares:
    """How the operations, or the time, of one layer divide over the classes of Ivanov et al., both passes."""

    products: float
    normalising: float
    elementwise: float


def operation_shares(
    *, rows: int, length: int, d_model: int, heads: int, d_ff: int, fused: bool = False
) -> Shares:
    """The operations of a BERT layer, counted.

    2 per multiply-add; per element 5 a softmax, 8 a LayerNorm, 1 a scale, mask, bias, dropout or residual
    sum, 8 a GELU; the backward pass takes twice the forward pass of each class. With `fused` what happens to
    scores counts as a product, as it does in the time of a fused kernel.
    """
    tokens, scores = rows * length, rows * heads * length**2
    products = 2 * tokens * (4 * d_model**2 + 2 * d_model * d_ff) + 4 * rows * length**2 * d_model
    normalising, elementwise = 5 * scores, 3 * scores
    if fused:
        products, normalising, elementwise = products + 8 * scores, 0, 0
    normalising += 2 * 8 * tokens * d_model
    elementwise += tokens * (4 * d_model + d_ff + d_model + 2 * 2 * d_model + 8 * d_ff)
    total = products + normalising + elementwise
    return Shares(products / total, normalising / total, elementwise / total)


def flops_not_runtime() -> list[Check]:
    """The checks of flops-not-runtime: the operations alone; `cost.py` measures the time."""
    paper = operation_shares(rows=8, length=512, d_model=1024, heads=16, d_ff=4096)
    ours = operation_shares(rows=4, length=256, d_model=96, heads=3, d_ff=384)
    return [
        at_least(
            "share of matrix products, BERT-large layer of 512 tokens", 0.99, paper.products, notes="holds"
        ),
        at_most(
            "share of softmax and LayerNorm there",
            0.005,
            paper.normalising,
            notes="holds",
            note=(
                "The paper prints 0.17 % and 25.5 % of run time for softmax and LayerNorm on one GPU; it "
                "appeared at MLSys 2021."
            ),
        ),
        at_least(
            "share of matrix products in a layer of 96 channels and 256 tokens",
            0.9,
            ours.products,
            note="the share falls with the width, so the printed 99.8 % belongs to wide layers",
        ),
    ]


CLAIMS: dict[str, Checks] = {
    "rms-ln-identities": identities,
    "norm-sandwich-activation-bound": sandwich_bound,
    "flops-not-runtime": flops_not_runtime,
}
