"""What does a fresh model show, before any training? Gradients by layer, and the size of the residual stream.

Sources: Xiong et al. 2020 (2002.04745), theorem 1, lemma 2 and figure 3. The rules were fixed before the
first measurement:
- norm-grad-by-layer-init: last over first layer's mean |gradient| of the first feed-forward matrix, 6 layers:
  above 5 for post-norm, in [0.5, 2] for pre-norm, each in the mean over inits with its 95 % interval; and
  over 6 to 14 layers the last layer's gradient falls with depth for pre-norm (interval of the log-log slope
  below 0), and not for post-norm (interval holds 0).
- norm-residual-growth: E|x|^2 / d is 3/2 within 5 % before every post-norm, and between 1 + l/2 and 1 + 3l/2
  after pre-norm layer l in 95 % of inits and layers, under the paper's assumptions (uniform attention, d_ff =
  d).
"""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

import torch

from lab.lecture.exact import models
from lab.lecture.exact.measured_claim import MeasuredPart, MeasuredTable, Measurement, outcome

INITS, DEPTHS = 10, (6, 8, 10, 12, 14)
TEXTS = ("uniform", "Zipf")
PAPER = ("norm=layernorm", "activation=relu", "position=none")


class MeanOfInits(NamedTuple):
    """The mean of a number over initialisations, with its 95 % t interval."""

    mean: float
    low: float
    high: float

    def text(self) -> str:
        return f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})"


def mean_of(values: list[float]) -> MeanOfInits:
    """The mean of two values or more, with its interval."""
    from scipy.special import stdtrit

    mean, n = statistics.fmean(values), len(values)
    half = float(stdtrit(n - 1, 0.975)) * statistics.stdev(values) / math.sqrt(n)
    return MeanOfInits(mean, mean - half, mean + half)


def gradients(placement: str, layers: int, seed: int, text: str) -> list[float]:
    """Mean |gradient| of each layer's first feed-forward matrix, for cross-entropy on 256 random tokens.

    text: "uniform" for tokens alike, "Zipf" for tokens that are drawn by Zipf's law.
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


def slope(depths: tuple[int, ...], values: list[float]) -> float:
    """The slope of log values over log depths: -1/2 where values fall as one over the root of the depth."""
    return statistics.linear_regression([math.log(d) for d in depths], [math.log(v) for v in values]).slope


def gradients_at_init(placement: str) -> tuple[list[MeanOfInits], MeanOfInits, list[tuple[str, ...]]]:
    """(last over first layer's gradient by TEXTS, slope of the last one's over depth, rows of a table)."""
    ratios: list[MeanOfInits] = []
    rows: list[tuple[str, ...]] = []
    for text in TEXTS:
        found = [gradients(placement, DEPTHS[0], seed, text) for seed in range(INITS)]
        ratios.append(mean_of([layers[-1] / layers[0] for layers in found]))
        bars = [statistics.fmean(column) for column in zip(*found, strict=True)]
        by_layer = ", ".join(f"{bar / bars[0]:.2f}" for bar in bars)
        rows.append((placement, text, ratios[-1].text(), by_layer))
    last = [[gradients(placement, depth, seed, "Zipf")[-1] for depth in DEPTHS] for seed in range(INITS)]
    return ratios, mean_of([slope(DEPTHS, values) for values in last]), rows


def gradient_by_layer(device: str) -> Measurement:
    """Measures norm-grad-by-layer-init, on the CPU whatever the device."""
    pre, pre_slope, pre_rows = gradients_at_init("pre")
    post, post_slope, post_rows = gradients_at_init("post")
    parts = (
        MeasuredPart(
            f"post-norm: last over first layer above 5: {'; '.join(ratio.text() for ratio in post)}",
            all(ratio.low > 5 for ratio in post),
        ),
        MeasuredPart(
            f"pre-norm: in 0.5 to 2: {'; '.join(ratio.text() for ratio in pre)}",
            all(ratio.low >= 0.5 and ratio.high <= 2 for ratio in pre),
        ),
        MeasuredPart(
            f"pre-norm's last layer falls with depth, log-log slope {pre_slope.text()}", pre_slope.high < 0
        ),
        MeasuredPart(
            "post-norm's last layer keeps its size at any depth (interval of the slope holds 0): "
            f"{post_slope.text()}",
            post_slope.low <= 0 <= post_slope.high,
        ),
    )
    against = [
        all(ratio.high <= 5 for ratio in post),
        all(ratio.high < 0.5 or ratio.low > 2 for ratio in pre),
        pre_slope.low >= 0,
        post_slope.high < 0 or post_slope.low > 0,
    ]
    return Measurement(
        outcome=outcome([part.holds for part in parts], against),
        parts=parts,
        table=MeasuredTable(
            header=("norm", "text", "last over first of 6 layers", "by layer, first = 1"),
            rows=(*pre_rows, *post_rows),
        ),
        n=f"{INITS} inits",
        size="decoder, width 192, 6 to 14 layers, d_ff 768, LayerNorm, ReLU",
        confounds=(
            "The paper's bars, 0.06 to 1.3 from first to last, are those of a translation model with an "
            "encoder; its theorem speaks of the last layer and of depth, the two parts about slopes here.",
            "Texts are random: tokens alike or by Zipf's law. The second was added after a first "
            "measurement on the first had shown no growth; rule and outcome stayed.",
        ),
    )


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


def residual_growth(device: str) -> Measurement:
    """Measures norm-residual-growth, on the CPU whatever the device."""
    layers, inits = 12, 20
    pre, post = ([residual(name, layers, seed) for seed in range(inits)] for name in ("pre", "post"))
    pre_means, post_means = ([statistics.fmean(of) for of in zip(*runs, strict=True)] for runs in (pre, post))
    off = max(abs(value / 1.5 - 1) for value in post_means)
    inside = [1 + layer / 2 <= x <= 1 + 1.5 * layer for run in pre for layer, x in enumerate(run, 1)]
    share = statistics.fmean(inside)
    growing = all(a < b for run in pre for a, b in zip(run, run[1:], strict=False))
    parts = (
        MeasuredPart(
            f"post-norm: within 5 % of 3/2 at every layer (largest gap {100 * off:.1f} %)", off <= 0.05
        ),
        MeasuredPart(
            f"pre-norm: between 1 + l/2 and 1 + 3l/2 in {100 * share:.0f} % of inits and layers",
            share >= 0.95,
        ),
        MeasuredPart("pre-norm: grows from layer to layer in every init", growing),
    )
    return Measurement(
        outcome=outcome([part.holds for part in parts], [not part.holds for part in parts]),
        parts=parts,
        table=MeasuredTable(
            header=("layer", "pre", "post", "bounds of pre"),
            rows=tuple(
                (str(at), f"{pre_mean:.3f}", f"{post_mean:.3f}", f"{1 + at / 2:.1f} to {1 + 1.5 * at:.1f}")
                for at, (pre_mean, post_mean) in enumerate(zip(pre_means, post_means, strict=True), 1)
            ),
        ),
        n=f"{inits} inits",
        size=f"width 256, {layers} layers, d_ff 256, LayerNorm, ReLU, uniform attention",
        confounds=(
            "At initialisation only; what training makes of it is another question.",
            "The constants hold for d_ff = d and uniform attention, as the paper assumes.",
        ),
    )


CLAIMS = {"norm-grad-by-layer-init": gradient_by_layer, "norm-residual-growth": residual_growth}
