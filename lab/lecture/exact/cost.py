"""What does a part of a model cost in time on this machine, against what it costs in operations?

The rules were fixed before the first measurement. Pairs are timed in turns, ratios judged by their 95 %
interval, and 2 % is too small to matter.
- flops-not-runtime: matrix products are over 99 % of the operations of a BERT-large layer of 512 tokens, and
  the rest takes over 10 times its share of operations in time, with attention written out and fused (Ivanov
  et al. 2021, 2007.00072).
- rms-vs-ln-speed: a training step with LayerNorm takes longer than one with RMSNorm, with the library's
  kernels and with both written out (Zhang and Sennrich 2019, 1910.07467; Narang et al. 2021, 2102.11972: 5 %
  more steps a second).
- parallel-speed: a step of serial blocks takes longer than one of parallel blocks with fused matrices
  (Chowdhery et al. 2022, 2204.02311: 15 % on many TPUs), at two widths.
- depth-latency: at equal body parameters (12 L d^2), 1, 4, 16 and 64 layers, every deeper model takes longer
  than the one before it, for a training step and for one new token (Tay et al. 2021, 2109.10686, as a
  limitation).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.lecture.exact import models
from lab.lecture.exact.measured_claim import MeasuredPart, MeasuredTable, Measurement, outcome
from lab.lecture.exact.norms import Shares, operation_shares
from lab.lecture.exact.timing import Ratio, compare
from lab.model.norm import LayerNorm, RMSNorm
from lab.verdict import outcomes

SMALL = 0.02
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "scaled_dot_product", "linear", "flash_attention")
NORMALISING = ("layer_norm", "softmax")


def judged(ratios: list[Ratio]) -> str:
    """The outcome of a claim that all these ratios lie above 1."""
    if all(r.low > 1 for r in ratios):
        return outcomes.SMALL if all(r.high < 1 + SMALL for r in ratios) else outcomes.REPRODUCED
    if all(r.low > 1 - SMALL and r.high < 1 + SMALL for r in ratios):
        return outcomes.SMALL
    return outcomes.CONTRADICTED if all(r.high < 1 for r in ratios) else outcomes.INCONCLUSIVE


def part(what: str, ratio: Ratio) -> MeasuredPart:
    """One ratio as a part of such a claim."""
    return MeasuredPart(f"{what} {ratio.text()}", ratio.low > 1)


class BertLayer(nn.Module):
    """One encoder layer of BERT-large, post-norm with biases and dropout; attention fused or written out."""

    def __init__(self, d: int, heads: int, d_ff: int, *, fused: bool):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, d_ff), nn.Linear(d_ff, d)
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            y = F.dropout((q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1), 0.1) @ v
        x = self.norms[0](x + F.dropout(self.out(y.transpose(1, 2).flatten(2)), 0.1))
        return self.norms[1](x + F.dropout(self.down(F.gelu(self.up(x))), 0.1))


def time_shares(layer: nn.Module, x: Tensor, device: str, repeats: int = 5) -> Shares:
    """Forward and backward time by class of operation, from torch's profiler.

    An operation's own time counts, without that of the operations it calls.
    """
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device == "cuda" else [])
    layer(x).sum().backward()
    with profile(activities=activities) as profiler:
        for _ in range(repeats):
            layer(x).sum().backward()
    products = normalising = elementwise = 0.0
    for event in profiler.key_averages():
        own = event.self_device_time_total if device == "cuda" else event.self_cpu_time_total
        name = event.key.removeprefix("aten::")
        if any(name == p or (len(p) > 8 and p in name) for p in PRODUCTS):
            products += own
        elif any(part in name for part in NORMALISING):
            normalising += own
        else:
            elementwise += own
    total = products + normalising + elementwise
    return Shares(products / total, normalising / total, elementwise / total)


def flops_and_time(device: str) -> Measurement:
    """Measures flops-not-runtime on one layer of BERT-large, with attention written out and fused."""
    d, heads, d_ff, length = 1024, 16, 4096, 512
    rows: list[tuple[str, ...]] = []
    parts: list[MeasuredPart] = []
    for name, fused in (("written out", False), ("fused", True)):
        counted = operation_shares(rows=1, length=length, d_model=d, heads=heads, d_ff=d_ff, fused=fused)
        rest = 1 - counted.products
        if not fused:
            text = f"products are {100 * counted.products:.2f} % of operations, above 99 %"
            parts.append(MeasuredPart(text, counted.products > 0.99))
        rows.append((f"operations, attention {name}", *_percent(counted, digits=2)))
        layer = BertLayer(d, heads, d_ff, fused=fused).to(device)
        shares = time_shares(layer, torch.randn(1, length, d, device=device, requires_grad=True), device)
        rows.append((f"time, attention {name}", *_percent(shares, digits=1)))
        other = 1 - shares.products
        text = (
            f"attention {name}: the rest is {100 * other:.1f} % of time, {other / rest:.1f} times its share "
            "of operations"
        )
        parts.append(MeasuredPart(text, other > 10 * rest))
    return Measurement(
        outcome=outcome([p.holds for p in parts], [not p.holds for p in parts]),
        parts=tuple(parts),
        table=MeasuredTable(
            header=("share of", "matrix products", "softmax and LayerNorm", "the rest"), rows=tuple(rows)
        ),
        n="5 steps a mode",
        size=f"one BERT layer, width {d}, {heads} heads, d_ff {d_ff}, {length} tokens, batch 1, fp32",
        confounds=(
            "The paper profiled one GPU in mixed precision; where products are slow, as on a CPU, the rest "
            "weighs less.",
            "Fused attention counts its softmax as a product, in time and in operations.",
        ),
    )


def _percent(shares: Shares, *, digits: int) -> list[str]:
    listed = (shares.products, shares.normalising, shares.elementwise)
    return [f"{100 * share:.{digits}f} %" for share in listed]


class WrittenNorm(nn.Module):
    """A norm as plain tensor operations, no library kernel."""

    def __init__(self, size: int, *, centred: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size)) if centred else None

    def forward(self, x: Tensor) -> Tensor:
        if self.bias is None:
            return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * self.weight
        x = x - x.mean(-1, keepdim=True)
        return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * self.weight + self.bias


def step(model: nn.Module, text: Tensor) -> Callable[[], None]:
    """Forward and backward pass; no optimizer."""

    def compute() -> None:
        model.zero_grad(set_to_none=True)
        logits = model(text[:, :-1]).logits
        F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).backward()

    return compute


def norms(device: str) -> Measurement:
    """Measures rms-vs-ln-speed by training steps; the norms alone are timed too, and judge nothing."""
    rows: list[tuple[str, ...]] = []
    decisive: list[Ratio] = []
    text = models.tokens(4, 257, vocab_size=1024).to(device)
    shape = dict(
        d_model=192, num_layers=4, num_heads=6, head_dim=32, d_ff=512, vocab_size=1024, context_length=256
    )
    for kernel in ("library", "written out"):
        built = []
        for name, centred in (("layernorm", True), ("rmsnorm", False)):
            model = models.model(models.run_config(f"norm={name}", **shape), dtype=torch.float32)
            if kernel == "written out":
                _replace_norms(model, centred=centred)
            built.append(step(model.to(device), text))
        decisive.append(compare(*built, device=device))
        rows.append((f"training step, {kernel}", decisive[-1].text()))
        x = torch.randn(1024, 192, device=device)
        pair = (
            (LayerNorm(192, True, eps=1e-5), RMSNorm(192, False, eps=1e-5))
            if kernel == "library"
            else (WrittenNorm(192, centred=True), WrittenNorm(192, centred=False))
        )
        alone = compare(*(_repeated(module.to(device), x) for module in pair), device=device)
        rows.append((f"the norm alone, forward, {kernel}", alone.text()))
    return Measurement(
        outcome=judged(decisive),
        parts=tuple(
            part(f"{row[0]}: LayerNorm over RMSNorm", ratio)
            for row, ratio in zip(rows[::2], decisive, strict=True)
        ),
        table=MeasuredTable(header=("what", "time of LayerNorm over RMSNorm"), rows=tuple(rows)),
        n=f"{decisive[0].pairs} interleaved pairs a row",
        size="width 192, 4 layers, 1,024 tokens a step, fp32",
        confounds=(
            "Nothing is compiled; a compiler fuses both norms away.",
            "LayerNorm here carries its bias, as the claim's LayerNorm does.",
        ),
    )


def _replace_norms(model: nn.Module, *, centred: bool) -> None:
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, LayerNorm | RMSNorm):
                setattr(parent, name, WrittenNorm(child.weight.shape[0], centred=centred))


def _repeated(module: nn.Module, x: Tensor, times: int = 20) -> Callable[[], None]:
    def compute() -> None:
        with torch.no_grad():
            for _ in range(times):
                module(x)

    return compute


class ParallelBlocks(nn.Module):
    """Blocks x + Attn(N x) + FFN(N x) of the project's parts; fused: one inward and one outward matrix."""

    def __init__(self, blocks: Any, *, fused: bool):
        super().__init__()
        self.blocks: Any = blocks
        self.fused = fused
        if fused:
            self.inward = nn.ParameterList(
                torch.cat(
                    [
                        b.attention.q.weight,
                        b.attention.k.weight,
                        b.attention.v.weight,
                        b.ffn.gate.weight,
                        b.ffn.up.weight,
                    ]
                ).detach()
                for b in blocks
            )
            self.outward = nn.ParameterList(
                torch.cat([b.attention.out.weight, b.ffn.down.weight], 1).detach() for b in blocks
            )

    def forward(self, x: Tensor, position: Any) -> Tensor:
        for number, block in enumerate(self.blocks):
            h = block.attention_placement.before(x)
            if not self.fused:
                x = x + block.attention(h, position, diagnostics=False)[0] + block.ffn.network(h)
                continue
            width, hidden = block.attention.q.weight.shape[0], block.ffn.up.weight.shape[0]
            q, k, v, gate, up = F.linear(h, self.inward[number]).split([width] * 3 + [hidden] * 2, -1)
            q, k, v = (
                part.unflatten(-1, (-1, block.attention.head_dim)).transpose(1, 2) for part in (q, k, v)
            )
            q, k = position.rotate(q, k)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            x = x + F.linear(torch.cat([y, block.ffn.activation(gate) * up], -1), self.outward[number])
        return x


def parallel(device: str) -> Measurement:
    """Measures parallel-speed at two widths; only blocks with fused matrices judge."""
    rows: list[tuple[str, ...]] = []
    decisive: list[Ratio] = []
    for width, d_ff in ((96, 256), (192, 512)):
        config = models.run_config(
            d_model=width, num_layers=4, num_heads=width // 32, head_dim=32, d_ff=d_ff, context_length=256
        )
        model = models.model(config, dtype=torch.float32).to(device)
        x = torch.randn(4, 256, width, device=device)

        def serial(model: Any = model, x: Tensor = x) -> None:
            y = x
            for block in model.blocks:
                y = block(y, model.position, drop=lambda t, site: t, diagnostics=False)[0]
            y.square().sum().backward()

        def of(blocks: ParallelBlocks, model: Any = model, x: Tensor = x) -> Callable[[], None]:
            return lambda: blocks(x, model.position).square().sum().backward()

        for name, fused in (("apart", False), ("fused", True)):
            blocks = ParallelBlocks(model.blocks, fused=fused).to(device)
            ratio = compare(serial, of(blocks), device=device)
            rows.append((f"width {width}, parallel, matrices {name}", ratio.text()))
            decisive += [ratio] if fused else []
    return Measurement(
        outcome=judged(decisive),
        parts=tuple(
            part(f"{row[0]}: serial over parallel", ratio)
            for row, ratio in zip(rows[1::2], decisive, strict=True)
        ),
        table=MeasuredTable(header=("what", "time of serial over parallel blocks"), rows=tuple(rows)),
        n=f"{decisive[0].pairs} interleaved pairs a row",
        size="4 layers of width 96 and 192, 1,024 tokens a step, fp32",
        confounds=(
            "One device: the 15 % came from models split over many, where a parallel block also saves an "
            "all-reduce.",
            "Blocks only, no embedding and no head, and no optimizer.",
        ),
    )


def depth(device: str) -> Measurement:
    """Measures depth-latency: every deeper model against the one before it, a training step and one token."""
    from lab.plan.budget import counts

    shapes = {1: 384, 4: 192, 16: 96, 64: 48}
    steps, token, flops = {}, {}, {}
    text = models.tokens(2, 129, vocab_size=256).to(device)
    for layers, width in shapes.items():
        size = 16 if width < 64 else 32
        config = models.run_config(
            num_layers=layers,
            d_model=width,
            num_heads=width // size,
            head_dim=size,
            d_ff=8 * width // 3,
            vocab_size=256,
            context_length=128,
        )
        model = models.model(config, dtype=torch.float32).to(device)
        flops[layers] = counts(config).flops_per_token
        steps[layers], token[layers] = step(model, text), _repeated(model, text[:1, :1], times=3)
    rows: list[tuple[str, ...]] = []
    ratios: list[Ratio] = []
    depths = list(shapes)
    for what, of in (("training step", steps), ("one token", token)):
        for shallow, deep in zip(depths, depths[1:], strict=False):
            ratio = compare(of[deep], of[shallow], device=device)
            ratios.append(ratio)
            more = f"{flops[deep] / flops[shallow]:.2f}" if what == "training step" else ""
            rows.append((what, f"{deep} over {shallow}", ratio.text(), more))
    return Measurement(
        outcome=judged(ratios),
        parts=tuple(
            part(f"{what}, {pair} layers:", ratio)
            for (what, pair, *_), ratio in zip(rows, ratios, strict=True)
        ),
        table=MeasuredTable(
            header=("what", "layers", "time, deep over shallow", "operations a token, deep over shallow"),
            rows=tuple(rows),
        ),
        n=f"{ratios[0].pairs} interleaved pairs a row",
        size="12 L d^2 = 1.77M: 1 x 384, 4 x 192, 16 x 96, 64 x 48; 256 tokens a step, fp32",
        confounds=(
            "Deeper models also have more attention scores, embeddings fewer parameters: the last column "
            "counts both.",
            "One token means a forward pass over a single token; nothing is cached before it.",
        ),
    )


CLAIMS = {
    "flops-not-runtime": flops_and_time,
    "rms-vs-ln-speed": norms,
    "parallel-speed": parallel,
    "depth-latency": depth,
}
