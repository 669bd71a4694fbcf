"""What does a fresh model show, before any training? Gradients by layer, and the size of the residual stream.

Sources: Xiong et al. 2020 (2002.04745), theorem 1, lemma 2 and figure 3. The rules were fixed before the first measurement:
- norm-grad-by-layer-init: last over first layer's mean |gradient| of the first feed-forward matrix, 6 layers: above 5 for
  post-norm, in [0.5, 2] for pre-norm, each in the mean over inits with its 95 % interval; and over 6 to 14 layers the
  last layer's gradient falls with depth for pre-norm (interval of the log-log slope below 0), and not for post-norm (interval holds 0).
- norm-residual-growth: E|x|^2 / d is 3/2 within 5 % before every post-norm, and between 1 + l/2 and 1 + 3l/2 after
  pre-norm layer l in 95 % of inits and layers, under the paper's assumptions (uniform attention, d_ff = d).
"""

from __future__ import annotations

import math
import statistics
from typing import Any

import torch

from lab.lecture.exact import models
from lab.verdict.outcomes import CONTRADICTED, INCONCLUSIVE, REPRODUCED

INITS, DEPTHS = 10, (6, 8, 10, 12, 14)
PAPER = ("norm=layernorm", "activation=relu", "position=none")


def gradients(placement: str, layers: int, seed: int, text: str) -> list[float]:
    """Mean |gradient| of each layer's first feed-forward matrix, for cross-entropy on random text of 256
    tokens.
    """
    config = models.run_config(
        f"norm_placement={placement}",
        *PAPER,
        seed=seed,
        num_layers=layers,
        d_model=192,
        num_heads=6,
        head_dim=32,
        d_ff=768,
        vocab_size=256,
        context_length=64,
    )
    model = models.model(config, dtype=torch.float32)
    weights = torch.arange(1, 257, dtype=torch.float32) ** (-1.1 if text == "Zipf" else 0.0)
    drawn = torch.multinomial(
        weights.expand(4, -1), 65, replacement=True, generator=torch.Generator().manual_seed(seed)
    )
    logits = model(drawn[:, :-1]).logits
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), drawn[:, 1:].flatten()).backward()
    return [float(block.ffn.up.weight.grad.abs().mean()) for block in model.blocks]


def interval(values: list[float]) -> tuple[float, float, float]:
    """Mean with its 95 % t interval."""
    from scipy.special import stdtrit

    mean, n = statistics.fmean(values), len(values)
    half = float(stdtrit(n - 1, 0.975)) * statistics.stdev(values) / math.sqrt(n)
    return mean, mean - half, mean + half


def slope(depths: tuple[int, ...], values: list[float]) -> float:
    return statistics.linear_regression([math.log(d) for d in depths], [math.log(v) for v in values]).slope


def gradient_by_layer(device: str) -> dict[str, Any]:
    table, ratios, slopes = [], {}, {}
    for placement in ("pre", "post"):
        for text in ("uniform", "Zipf"):
            found = [gradients(placement, DEPTHS[0], seed, text) for seed in range(INITS)]
            ratios[placement, text] = interval([g[-1] / g[0] for g in found])
            bars = [statistics.fmean(column) for column in zip(*found, strict=True)]
            table.append(
                [
                    placement,
                    text,
                    _told(ratios[placement, text]),
                    ", ".join(f"{bar / bars[0]:.2f}" for bar in bars),
                ]
            )
        last = [[gradients(placement, depth, seed, "Zipf")[-1] for depth in DEPTHS] for seed in range(INITS)]
        slopes[placement] = interval([slope(DEPTHS, values) for values in last])
    pre, post = ([ratios[placement, text] for text in ("uniform", "Zipf")] for placement in ("pre", "post"))
    parts = {
        f"post-norm: last over first layer above 5: {'; '.join(map(_told, post))}": all(
            r[1] > 5 for r in post
        ),
        f"pre-norm: in 0.5 to 2: {'; '.join(map(_told, pre))}": all(r[1] >= 0.5 and r[2] <= 2 for r in pre),
        f"pre-norm's last layer falls with depth, log-log slope {_told(slopes['pre'])}": slopes["pre"][2] < 0,
        f"post-norm's last layer keeps its size at any depth (interval of the slope holds 0): {_told(slopes['post'])}": slopes[
            "post"
        ][1]
        <= 0
        <= slopes["post"][2],
    }
    against = [
        all(r[2] <= 5 for r in post),
        all(r[2] < 0.5 or r[1] > 2 for r in pre),
        slopes["pre"][1] >= 0,
        slopes["post"][2] < 0 or slopes["post"][1] > 0,
    ]
    return {
        "outcome": outcome(list(parts.values()), against),
        "parts": [{"statement": text, "holds": holds} for text, holds in parts.items()],
        "table": {
            "header": ["norm", "text", "last over first of 6 layers", "by layer, first = 1"],
            "rows": table,
        },
        "n": f"{INITS} inits",
        "size": "decoder, width 192, 6 to 14 layers, d_ff 768, LayerNorm, ReLU",
        "confounds": [
            "The paper's bars, 0.06 to 1.3 from first to last, are those of a translation model with an encoder; its theorem "
            "speaks of the last layer and of depth, the two parts about slopes here.",
            "Texts are random: tokens alike or by Zipf's law. The second was added after a first measurement on the first had "
            "shown no growth; rule and outcome stayed.",
        ],
    }


def residual(placement: str, layers: int, seed: int) -> list[float]:
    """E|x|^2 / d of the stream before each layer's last norm (post) or after each layer (pre)."""
    config = models.run_config(
        f"norm_placement={placement}",
        *PAPER,
        seed=seed,
        num_layers=layers,
        d_model=256,
        num_heads=4,
        head_dim=64,
        d_ff=256,
        context_length=64,
    )
    model = models.model(config, dtype=torch.float32)
    sizes: list[float] = []
    for block in model.blocks:
        block.attention.q.weight.data.zero_()  # uniform attention, the paper's assumption
        place = block.ffn_placement
        if placement == "post":
            place.norm.register_forward_pre_hook(
                lambda _m, args: sizes.append(float(args[0].square().mean()))
            )
        else:
            block.register_forward_hook(lambda _m, _a, out: sizes.append(float(out[0].square().mean())))
    with torch.no_grad():
        model(models.tokens(8, 64, seed=seed))
    return sizes


def residual_growth(device: str) -> dict[str, Any]:
    layers, inits = 12, 20
    found = {name: [residual(name, layers, seed) for seed in range(inits)] for name in ("pre", "post")}
    means = {name: [statistics.fmean(column) for column in zip(*found[name], strict=True)] for name in found}
    off = max(abs(value / 1.5 - 1) for value in means["post"])
    inside = [1 + layer / 2 <= x <= 1 + 1.5 * layer for run in found["pre"] for layer, x in enumerate(run, 1)]
    share = statistics.fmean(inside)
    growing = all(a < b for run in found["pre"] for a, b in zip(run, run[1:], strict=False))
    parts = {
        f"post-norm: within 5 % of 3/2 at every layer (largest gap {100 * off:.1f} %)": off <= 0.05,
        f"pre-norm: between 1 + l/2 and 1 + 3l/2 in {100 * share:.0f} % of inits and layers": share >= 0.95,
        "pre-norm: grows from layer to layer in every init": growing,
    }
    return {
        "outcome": outcome(list(parts.values()), [not holds for holds in parts.values()]),
        "parts": [{"statement": text, "holds": holds} for text, holds in parts.items()],
        "table": {
            "header": ["layer", "pre", "post", "bounds of pre"],
            "rows": [
                [str(at), f"{pre:.3f}", f"{post:.3f}", f"{1 + at / 2:.1f} to {1 + 1.5 * at:.1f}"]
                for at, (pre, post) in enumerate(zip(means["pre"], means["post"], strict=True), 1)
            ],
        },
        "n": f"{inits} inits",
        "size": f"width 256, {layers} layers, d_ff 256, LayerNorm, ReLU, uniform attention",
        "confounds": [
            "At initialisation only; what training makes of it is another question.",
            "The constants hold for d_ff = d and uniform attention, as the paper assumes.",
        ],
    }


def outcome(holding: list[bool], failing: list[bool]) -> str:
    """Of parts that must all hold: reproduced, contradicted where one is refuted, else inconclusive."""
    return REPRODUCED if all(holding) else CONTRADICTED if any(failing) else INCONCLUSIVE


def _told(estimate: tuple[float, float, float]) -> str:
    mean, low, high = estimate
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


CLAIMS = {"norm-grad-by-layer-init": gradient_by_layer, "norm-residual-growth": residual_growth}
