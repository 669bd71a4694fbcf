"""Which statements about softmax, z-loss, QK-norm and soft-caps are identities or bounds?

Sources: Devlin et al. 2014 for a normaliser held near 1; Chowdhery et al. 2022 (2204.02311), section 5,
for z-loss; Henry et al. 2020 (2010.04245) and Dehghani et al. 2023 (2302.05442) for normalised queries and
keys; Gemma 2 (2408.00118), section 2, for caps.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lab.lecture.exact import models
from lab.lecture.exact.check import Check, Checks, at_most, close, equal, normal, same
from lab.model.kernel import logit_max


def naive_softmax(u: Tensor) -> Tensor:
    """exp(u) / sum exp(u) over the last dimension, which overflows for large logits."""
    return u.exp() / u.exp().sum(-1, keepdim=True)


def safe_softmax(u: Tensor) -> Tensor:
    """The same after the largest logit is subtracted, which never overflows."""
    shifted = (u - u.amax(-1, keepdim=True)).exp()
    return shifted / shifted.sum(-1, keepdim=True)


def safe() -> list[Check]:
    """The checks of safe-softmax-exact: the two are the same function where both are finite."""
    gradients = []
    u = 20 * normal(32, 64)
    weight = normal(32, 64, seed=1)
    for softmax in (naive_softmax, safe_softmax):
        leaf = u.clone().requires_grad_()
        (softmax(leaf) * weight).sum().backward()
        gradients.append(leaf.grad)
    large = torch.tensor([1000.0, 999.0, 0.0], dtype=torch.float64)
    drifted = safe_softmax(u + 500.0)
    return [
        same(
            "where exp does not overflow, both give the same",
            naive_softmax(u),
            safe_softmax(u),
            notes="holds",
        ),
        same("and the same gradient", *gradients),  # type: ignore[arg-type]
        equal(
            "logits of 1,000: finite without and with the shift",
            [False, True],
            [bool(naive_softmax(large).isfinite().all()), bool(safe_softmax(large).isfinite().all())],
            notes="holds",
        ),
        same(
            "logits that drifted by 500 give the same output, so nothing pulls them back",
            drifted,
            safe_softmax(u),
            notes="holds",
        ),
    ]


def z_loss() -> list[Check]:
    """The checks of zloss-shift-identity: its gradient, its optimum, and the sign that the notes print."""
    u = 3 * normal(8, 40)
    leaf = u.clone().requires_grad_()
    alpha, log_z = 1e-2, torch.logsumexp(leaf, -1)
    (alpha * log_z.square()).sum().backward()
    formula = 2 * alpha * torch.logsumexp(u, -1, keepdim=True) * F.softmax(u, -1)
    checks = [
        same("softmax(u + c) = softmax(u)", F.softmax(u + 7.0, -1), F.softmax(u, -1)),
        same("gradient of a log^2 Z is 2 a log Z p", leaf.grad, formula),  # type: ignore[arg-type]
    ]
    target = F.softmax(1.5 * normal(40, seed=2), -1)
    entropy = float(-(target * target.log()).sum())
    for alpha in (0.0, 1e-4, 1.0):
        free = _optimum(target, alpha=alpha)
        cross_entropy = float(-(target * F.log_softmax(free, -1)).sum())
        checks.append(
            close(
                f"cross-entropy of free logits at their optimum, a = {alpha:g}: the entropy",
                entropy,
                cross_entropy,
            )
        )
        if alpha:
            log_z = torch.logsumexp(free, -1)
            checks.append(
                same(f"log Z there is 0, a = {alpha:g}", log_z, torch.zeros_like(log_z), notes="holds")
            )
    leaf = u[0].clone().requires_grad_()
    printed = F.log_softmax(leaf, -1)[3] - 1e-4 * torch.logsumexp(leaf, -1).square()
    (slope,) = torch.autograd.grad(printed, leaf)
    change = float(F.log_softmax(u[0] - 0.1 * slope, -1)[3] - F.log_softmax(u[0], -1)[3])
    return [
        *checks,
        at_most(
            "a step down the printed log P - a log^2 Z changes log P of the right token by",
            0.0,
            change,
            notes="fails",
            note="The notes call it a loss, but it is what to maximise. A loss is -log P + a log^2 Z.",
        ),
    ]


def _optimum(target: Tensor, *, alpha: float) -> Tensor:
    """Logits that minimise cross-entropy + alpha log^2 Z, by Newton's method from zero."""
    u = torch.zeros_like(target)
    for _ in range(100):
        p, log_z = F.softmax(u, -1), torch.logsumexp(u, -1)
        gradient = p - target + 2 * alpha * log_z * p
        curvature = (1 + 2 * alpha * log_z) * (torch.diag(p) - torch.outer(p, p)) + 2 * alpha * torch.outer(
            p, p
        )
        step = torch.linalg.pinv(curvature, hermitian=True) @ gradient
        u = u - step * min(1.0, 1.0 / float(step.norm()))
    return u


@torch.no_grad()
def qk_norm() -> list[Check]:
    """The checks of qknorm-bound: how large a logit of normalised queries and keys can be."""
    checks = []
    for size in (32, 64, 128):
        config = models.run_config("stability=qk_norm", head_dim=size)
        attention = models.model(config).blocks[0].attention
        x = 1e3 * normal(2, 16, config.shape.d_model, seed=size)
        q, k = (linear(x).unflatten(-1, (-1, attention.head_dim)) for linear in (attention.q, attention.k))
        aligned = attention.q_norm(q), attention.k_norm(q)  # a key equal to the query reaches the bound
        q, k = attention.q_norm(q).transpose(1, 2), attention.k_norm(k).transpose(1, 2)
        bound = math.sqrt(size)
        checks.append(
            at_most(
                f"largest |logit| at head size {size}, gains 1, inputs of size 1,000",
                bound,
                float(logit_max(q, k, None)),
                notes="holds",
            )
        )
        reached = float((aligned[0] * aligned[1]).sum(-1).max()) / math.sqrt(size)
        checks.append(
            close(
                f"largest |logit| of a key that equals its query: sqrt({size})", bound, reached, within=1e-6
            )
        )
    attention.q_norm.weight.fill_(3.0)
    attention.k_norm.weight.fill_(2.0)
    grown = float((attention.q_norm(aligned[0]) * attention.k_norm(aligned[0])).sum(-1).max()) / math.sqrt(
        128
    )
    checks.append(
        close(
            "with gains 3 and 2: 6 sqrt(128)",
            6 * math.sqrt(128),
            grown,
            within=1e-5,
            note=(
                "The gains are learned, so training moves the bound. Gemma 2, which the notes name, caps "
                "instead; Gemma 3 normalises."
            ),
        )
    )
    return checks


def soft_cap() -> list[Check]:
    """The checks of softcap-range-and-floor: the range of capped logits and the loss they allow."""
    x = torch.linspace(-1e4, 1e4, 200_001, dtype=torch.float64)
    zero = torch.zeros((), dtype=torch.float64, requires_grad=True)
    checks = []
    for cap in (5.0, 15.0, 30.0, 50.0):
        y = cap * torch.tanh(x / cap)
        (slope,) = torch.autograd.grad(cap * torch.tanh(zero / cap), zero)
        inside = x[(x.abs() < cap / 3) & (x != 0)]
        bend = float((cap * torch.tanh(inside / cap) / inside - 1).abs().max())
        checks += [
            at_most(f"cap {cap:g}: largest |output|", cap, float(y.abs().max()), notes="holds"),
            close(f"cap {cap:g}: slope at 0", 1.0, float(slope)),
            at_most(f"cap {cap:g}: largest relative change below a third of it", 0.04, bend),
        ]
    for cap, limits in ((5.0, True), (15.0, False)):
        best = torch.full((32_768,), -cap, dtype=torch.float64)
        best[0] = cap
        floor, text = (
            float(-F.log_softmax(best, -1)[0]),
            f"lowest cross-entropy under cap {cap:g}, 32,768 tokens, nats",
        )
        if limits:
            checks.append(
                close(f"{text}: log(1 + (V - 1) exp(-2 c))", math.log1p(32_767 * math.exp(-2 * cap)), floor)
            )
        else:
            checks.append(at_most(text, 1e-8, floor, note="no limit in practice"))
    return checks


CLAIMS: dict[str, Checks] = {
    "safe-softmax-exact": safe,
    "zloss-shift-identity": z_loss,
    "qknorm-bound": qk_norm,
    "softcap-range-and-floor": soft_cap,
}
