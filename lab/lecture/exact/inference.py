"""Which statements about arithmetic intensity and the key-value cache are counts or identities?

Intensities count operations over elements moved, as Shazeer 2019 (1911.02150) does: one read of every
input and weight and one write of every output of a step, no fused softmax. b sequences of n tokens, width
d, h heads of size k = d / h.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from lab.lecture.exact import models
from lab.lecture.exact.check import Check, Checks, at_least, close, equal, flops, normal, same
from lab.model.position import VARIANTS as POSITIONS

GRID = list(itertools.product((1, 4, 64), (64, 512, 8192), (192, 1024, 8192), (4, 16)))


def prefill(b: int, n: int, d: int, h: int) -> tuple[int, int, int]:
    """(operations of the projections, of the scores, elements moved) in full attention.

    The leading terms: four projections, two score products; b n d activations, b h n^2 scores, d^2 weights.
    """
    return 4 * b * n * d * d, 2 * b * n * n * d, b * n * d + b * h * n * n + d * d


def every_product(b: int, n: int, d: int, h: int) -> tuple[int, int]:
    """(multiply-adds, elements moved) of each product with its inputs and output, the softmax not fused."""
    k, products = d // h, []
    products += [(1, b * n, d, d)] * 4
    products += [(b * h, n, k, n), (b * h, n, n, k)]
    operations = sum(times * rows * inner * columns for times, rows, inner, columns in products)
    moved = sum(t * (rows * inner + inner * columns + rows * columns) for t, rows, inner, columns in products)
    return operations, moved + 2 * b * h * n * n


def decode(b: int, n: int, d: int, h: int, groups: int) -> tuple[int, int]:
    """(operations, elements moved) over n steps of one token each, with `groups` heads of keys and values.

    The leading terms: step t reads t keys and values a sequence, the weights and the activations; sum of t
    = n (n + 1) / 2.
    """
    k = d // h
    operations = b * n * d * d
    cache = b * (n * (n + 1) // 2) * 2 * groups * k
    return operations, b * n * d + cache + n * d * d


def every_decoding_product(b: int, n: int, d: int, h: int, groups: int) -> tuple[int, int]:
    """As `every_product`, over n steps of one token; the heads of a group read its keys and values once."""
    k, share = d // h, h // groups
    operations = moved = 0
    for t in range(1, n + 1):
        steps = [(1, b, d, d), (1, b, d, d), (1, b, d, groups * k), (1, b, d, groups * k)]
        steps += [(b * groups, share, k, t), (b * groups, share, t, k)]
        operations += sum(times * rows * inner * columns for times, rows, inner, columns in steps)
        moved += sum(i * (r * inner + inner * c + r * c) for i, r, inner, c in steps) + 2 * b * h * t
    return operations, moved


def ai_prefill() -> list[Check]:
    """The checks of ai-mha-prefill: elements moved for each operation over a whole text."""
    gaps, inside = [], []
    for b, n, d, h in GRID:
        moved = prefill(b, n, d, h)[2] / (b * n * d * d)  # per operation of the leading term b n d^2
        k = d // h
        gaps.append(abs(moved / (1 / d + h * n / d**2 + 1 / (b * n)) - 1))
        if d / 2 <= n <= 2 * d:
            operations, elements = every_product(b, n, d, h)
            inside.append(elements / operations / (1 / k + 1 / (b * n)))
    short = prefill(1, 64, 8192, 16)[2] / (64 * 8192**2) / (1 / 512 + 1 / 64)
    project, score, _ = prefill(1, 8192, 192, 4)
    return [
        close(
            "elements over b n d^2 = 1/d + h n / d^2 + 1/(b n) on a grid of b, n, d, h: largest gap + 1",
            1.0,
            1 + max(gaps),
        ),
        equal(
            "all products counted: the notes' 1/k + 1/(b n) is right to a factor 2 where n is within a "
            "factor 2 of d",
            True,
            all(0.5 <= value <= 2 for value in inside),
            notes="holds",
            note=f"counted {min(inside):.2f} to {max(inside):.2f} times it",
        ),
        at_least(
            "n = 64, d = 8,192: the notes' form over the count",
            1.0,
            1 / short,
            note="short texts are better than the form says",
        ),
        at_least(
            "n = 8,192, d = 192: score over projection operations, which the form leaves out",
            1.0,
            score / project,
            note="the notes take n <= d",
        ),
    ]


def _product(rows: int, inner: int, columns: int) -> int:
    """FLOPs of one matrix product, as torch counts them while it runs."""
    a, b = normal(rows, inner), normal(inner, columns)
    return flops(lambda: a @ b)


def dominant_term() -> list[Check]:
    """The checks of attn-flops-dominant-term: scores against projections, as torch counts them."""
    d, checks = 64, []
    for n in (16, 64, 128, 256):
        project = 4 * _product(n, d, d)
        score = _product(n, d, n) + _product(n, n, d)
        text = f"scores over projections, {n} tokens at width 64: n / (2 d)"
        checks.append(close(text, n / (2 * d), score / project, notes="holds" if n <= d else None))
    return checks


def ai_decode() -> list[Check]:
    """The checks of ai-mha-decode: elements moved for each operation, a token at a time."""
    gaps = []
    for b, n, d, h in GRID:
        operations, moved = decode(b, n, d, h, h)
        gaps.append(abs(moved / operations / (1 / d + (n + 1) / d + 1 / b) - 1))
    inside = []
    for b, n, d, h in GRID:
        if d / 2 <= n <= 2 * d:
            operations, moved = every_decoding_product(b, n, d, h, h)
            inside.append(moved / operations / (n / d + 1 / b))
    more = [every_decoding_product(b, 1024, 1024, 16, 16) for b in (1, 64)]
    longer = [every_decoding_product(16, n, 1024, 16, 16) for n in (256, 4096)]
    wider = [every_decoding_product(16, 1024, d, 16, 16) for d in (256, 4096)]
    return [
        close(
            "elements over operations = 1/d + (n + 1)/d + 1/b on the grid: largest gap + 1",
            1.0,
            1 + max(gaps),
            note=(
                "the notes write n/d + 1/b; keys and values are two tensors of n (n + 1) / 2 rows, and b n "
                "d is left out"
            ),
        ),
        equal(
            "all products counted: the notes' n/d + 1/b is right to a factor 6 where n is within a factor "
            "2 of d",
            True,
            all(1 / 6 <= value <= 6 for value in inside),
            notes="holds",
            note=(
                f"counted {min(inside):.2f} to {max(inside):.2f} times it, for four projections and the "
                "scores are operations too"
            ),
        ),
        *(
            at_least(
                f"all products counted: {text}",
                1.5,
                (second[0] / second[1]) / (first[0] / first[1]),
                notes="holds",
            )
            for text, (first, second) in (
                ("intensity of a batch of 64 over one", (more[0], more[1])),
                ("of 256 tokens over 4,096", (longer[1], longer[0])),
                ("of width 4,096 over 256", (wider[0], wider[1])),
            )
        ),
    ]


def ai_mqa() -> list[Check]:
    """The checks of ai-mqa-decode: the same with fewer heads of keys and values."""
    gaps = []
    for b, n, d, h in GRID:
        for groups in (1, h // 2, h):
            operations, moved = decode(b, n, d, h, groups)
            gaps.append(abs(moved / operations / (1 / d + (n + 1) * groups / (d * h) + 1 / b) - 1))
    b, n, d, h = 16, 4096, 1024, 16
    shared, full = every_decoding_product(b, n, d, h, 1), every_decoding_product(b, n, d, h, h)
    return [
        close(
            "elements over operations = 1/d + (n + 1) g / (d h) + 1/b for g heads of keys: largest gap + 1",
            1.0,
            1 + max(gaps),
            notes="holds",
        ),
        at_least(
            "all products counted: intensity of one shared head over 16, 4,096 tokens, batch 16",
            2.0,
            (shared[0] / shared[1]) / (full[0] / full[1]),
            notes="holds",
        ),
    ]


class CachedDecoder:
    """The project's model a token at a time: past keys and values are kept, only the new row is computed."""

    def __init__(self, model: Any):
        self.model, self.length = model, 0
        self.keys: list[Tensor | None] = [None] * len(model.blocks)
        self.values: list[Tensor | None] = [None] * len(model.blocks)

    @torch.no_grad()
    def step(self, token: Tensor) -> Tensor:
        """token [B, 1] -> logits [B, vocab_size]."""
        self.length += 1
        position = self.model.position
        x = self._last(position.embed(self._padded(self.model.embedding(token))))
        for layer, block in enumerate(self.model.blocks):
            place, attention = block.attention_placement, block.attention
            q, k, v = (
                part(place.before(x)).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
                for part in (attention.q, attention.k, attention.v)
            )
            q, k = (self._last(part) for part in position.rotate(self._padded(q), self._padded(k)))
            self.keys[layer], self.values[layer] = (
                new if old is None else torch.cat([old, new], 2)
                for old, new in ((self.keys[layer], k), (self.values[layer], v))
            )
            y = self._attend(q, self.keys[layer], self.values[layer], layer=layer)
            x = place.after(x + place.branch(attention.out(y.transpose(1, 2).flatten(2))))
            place = block.ffn_placement
            x = place.after(x + place.branch(block.ffn.network(place.before(x))))
        return self.model.head(self.model.final_norm(x))[:, -1]

    def _attend(self, q: Tensor, keys: Tensor | None, values: Tensor | None, *, layer: int) -> Tensor:
        assert keys is not None and values is not None
        bias = self.model.position.bias(self._padded(q), layer=layer)
        share = q.shape[1] // keys.shape[1]
        keys, values = keys.repeat_interleave(share, 1), values.repeat_interleave(share, 1)
        scores = q @ keys.transpose(-1, -2) * q.shape[-1] ** -0.5
        weights = (scores if bias is None else scores + bias[..., -1:, :]).softmax(-1)
        read = self.model.position.read(self._padded(weights), layer=layer)
        return weights @ values if read is None else weights @ values + self._last(read)

    def _padded(self, x: Tensor) -> Tensor:
        """The new row at its place behind zeros, for hooks that count positions from the first row."""
        return torch.cat([x.new_zeros(*x.shape[:-2], self.length - 1, x.shape[-1]), x], -2)

    def _last(self, x: Tensor) -> Tensor:
        return x[..., -1:, :]


@torch.no_grad()
def kv_cache() -> list[Check]:
    """The checks of kv-cache-exact: with a cache, logits and greedy tokens are those of recomputing."""
    n, checks = 16, []
    for name in POSITIONS:
        model = models.model(models.run_config(f"position={name}", num_heads=3, head_dim=16))
        given = models.tokens(2, n)
        cached, decoder = [], CachedDecoder(model)
        for at in range(n):
            cached.append(decoder.step(given[:, at : at + 1]))
        checks.append(
            same(
                f"{name}: cached logits = recomputed ones",
                torch.stack(cached, 1),
                model(given).logits,
                notes="holds",
            )
        )
        text, start = given[:, :4], CachedDecoder(model)
        for at in range(4):
            logits = start.step(text[:, at : at + 1])
        written = plain = text
        for _ in range(12):
            written = torch.cat([written, logits.argmax(-1, keepdim=True)], 1)
            logits = start.step(written[:, -1:])
            plain = torch.cat([plain, model(plain).logits[:, -1].argmax(-1, keepdim=True)], 1)
        checks.append(
            equal(
                f"{name}: 12 greedy tokens, cached, are those of recomputing",
                written.flatten().tolist(),
                plain.flatten().tolist(),
            )
        )
    again, once = sum(_product(t, 48, 48) for t in range(1, n + 1)), n * _product(1, 48, 48)
    return [
        *checks,
        close(
            "projection FLOPs without and with a cache over 16 tokens: (n + 1) / 2",
            (n + 1) / 2,
            again / once,
            notes="holds",
        ),
    ]


@torch.no_grad()
def kv_bytes() -> list[Check]:
    """Bytes that a decoder holds after n tokens of b texts, in float64."""
    h, n, b, held = 8, 16, 2, {}
    given, checks = models.tokens(b, n), []
    for groups in (8, 4, 2, 1):
        config = models.run_config(num_heads=h, head_dim=6, num_kv_heads=groups)
        model = models.model(config)
        decoder = CachedDecoder(model)
        logits = torch.stack([decoder.step(given[:, at : at + 1]) for at in range(n)], 1)
        checks.append(
            same(f"{groups} of 8 heads kept: cached logits = recomputed ones", logits, model(given).logits)
        )
        held[groups] = sum(kept.nbytes for kept in (*decoder.keys, *decoder.values) if kept is not None)
    layers, size = models.SHAPE.num_layers, 6
    return [
        equal(
            "bytes of a float64 cache of 8, 4, 2 and 1 heads: 2 L g d_h n b x 8",
            [2 * layers * g * size * n * b * 8 for g in held],
            list(held.values()),
            notes="holds",
        ),
        *checks,
    ]


CLAIMS: dict[str, Checks] = {
    "ai-mha-prefill": ai_prefill,
    "attn-flops-dominant-term": dominant_term,
    "ai-mha-decode": ai_decode,
    "ai-mqa-decode": ai_mqa,
    "kv-cache-exact": kv_cache,
    "kv-cache-bytes": kv_bytes,
}
