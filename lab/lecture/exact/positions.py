"""Which statements about positions are identities?

Sources: Vaswani et al. 2017 (1706.03762), section 3.5; Su et al. 2021 (2104.09864), eq. 15, 16 and 34;
Press et al. 2021 (2108.12409); Kazemnejad et al. 2023 (2305.19466) for what the causal mask gives away.
"""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor

from lab.lecture.exact import models
from lab.lecture.exact.check import Check, Checks, at_least, differ, equal, flops, normal, same
from lab.model.position import ALiBi, Rotary, Sine

BASE, HEAD = 10_000.0, 32
NEAR, FAR = 1e-5, 1_000_000


def angles(positions: Tensor, size: int = HEAD) -> Tensor:
    """position * base^(-2i / size) in the dtype of `positions`, [length, size / 2]."""
    frequency = BASE ** (-torch.arange(0, size, 2, dtype=positions.dtype) / size)
    return positions[:, None] * frequency


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """x [length, size] rotated in the planes (i, i + size / 2), as eq. 34 with Llama's pairing."""
    angle = angles(positions, x.shape[-1])
    first, second = x.chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


@torch.no_grad()
def permutation() -> list[Check]:
    """The checks of pos-permutation: what a layer without positions knows of the order."""
    model = models.model(models.run_config("position=none"))
    attention, x = model.blocks[0].attention, normal(1, 12, models.SHAPE.d_model)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))

    def bidirectional(x: Tensor) -> Tensor:
        q, k, v = (
            part(x).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
            for part in (attention.q, attention.k, attention.v)
        )
        return attention.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def causal(x: Tensor) -> Tensor:
        return attention(x, model.position, diagnostics=False)[0]

    prefix = torch.cat([order[order != 11], torch.tensor([11])])
    return [
        same(
            "without a mask, permuting the tokens permutes the rows",
            bidirectional(x[:, order]),
            bidirectional(x)[:, order],
            notes="holds",
        ),
        differ(
            "under a causal mask it does not",
            causal(x[:, order]),
            causal(x)[:, order],
            least=0.01,
            notes="fails",
            note="The notes leave the mask out. With it the model knows how many tokens came before.",
        ),
        same(
            "one causal layer without positions: the last row ignores the order of those before it",
            causal(x[:, prefix])[:, -1],
            causal(x)[:, -1],
        ),
    ]


@torch.no_grad()
def additive_cross_terms() -> list[Check]:
    """The score of positions i and j against that of i + s and j + s, with random content and projections."""
    d, i, j, s, length = 64, 5, 2, 17, 32
    shape = dataclasses.replace(models.SHAPE, d_model=d, context_length=length, head_dim=d)
    x, y, wq, wk = normal(d, seed=1), normal(d, seed=2), normal(d, d, seed=3) / 8, normal(d, d, seed=4) / 8
    sine, learned = Sine(shape, base=BASE).table.double(), normal(length, d, seed=5)
    rope = Rotary(shape, theta=BASE).double()
    alibi = ALiBi(dataclasses.replace(shape, num_heads=1))

    def added(table: Tensor, at: int, to: int) -> Tensor:
        return ((x + table[at]) @ wq) @ ((y + table[to]) @ wk)

    def rotated(at: int, to: int) -> Tensor:
        q, k = (v.expand(1, 1, length, d) for v in (x @ wq, y @ wk))
        q, k = rope.rotate(q, k)
        return q[0, 0, at] @ k[0, 0, to]

    def biased(at: int, to: int) -> Tensor:
        q = (x @ wq).expand(1, 1, length, d)
        return q[0, 0, at] @ (y @ wk) + alibi.bias(q, layer=0)[0, at, to]

    return [
        same(
            "rope: a shift leaves the score",
            rotated(i, j),
            rotated(i + s, j + s),
            tolerance=1e-5,
            notes="holds",
            note="the project's tables are float32",
        ),
        same("alibi: a shift leaves the score", biased(i, j), biased(i + s, j + s)),
        differ(
            "sine: a shift moves the score",
            added(sine, i, j),
            added(sine, i + s, j + s),
            least=0.01,
            notes="holds",
        ),
        differ(
            "learned: a shift moves the score",
            added(learned, i, j),
            added(learned, i + s, j + s),
            least=0.01,
            notes="holds",
        ),
        same(
            "sine alone: PE(i) . PE(j) depends on i - j",
            sine[i] @ sine[j],
            sine[i + s] @ sine[j + s],
            tolerance=1e-5,
            note="only the cross terms with the content break it",
        ),
    ]


@torch.no_grad()
def sine_definition() -> list[Check]:
    """The checks of sine-definition: the table of Vaswani et al. and its wavelengths."""
    d, length, shift = 48, 64, 7
    shape = dataclasses.replace(models.SHAPE, d_model=d, context_length=length)
    table = Sine(shape, base=BASE).table.double()
    position = torch.arange(length, dtype=torch.float64)
    pair = torch.arange(d) // 2  # 0, 0, 1, 1, ...: the index as the notes explain it
    angle = position[:, None] * BASE ** (-2.0 * pair.double() / d)
    by_index = torch.where(torch.arange(d) % 2 == 0, angle.sin(), angle.cos())
    wavelengths = 2 * torch.pi / torch.atan2(table[1, 0::2], table[1, 1::2])
    turn = shift * BASE ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    blocks = torch.block_diag(
        *(torch.tensor([[t.cos(), t.sin()], [-t.sin(), t.cos()]], dtype=torch.float64) for t in turn)
    )
    ratios = wavelengths[1:] / wavelengths[:-1]
    return [
        same(
            "channels 2i and 2i + 1 hold sin and cos of one angle, index 0, 0, 1, 1, ...",
            table,
            by_index,
            tolerance=NEAR,
            notes="holds",
        ),
        same(
            "PE(p + k) = R_k PE(p) with one block rotation for all p",
            by_index[shift:],
            by_index[:-shift] @ blocks.T,
        ),
        same(
            "wavelengths grow by one factor from pair to pair",
            ratios,
            ratios[0].expand_as(ratios),
            tolerance=NEAR,
            notes="fails",
            note=(
                "One of the notes makes the wavelength proportional to the token's position; it is "
                "geometric in the channel and the same at every position."
            ),
        ),
    ]


@torch.no_grad()
def rope_relative() -> list[Check]:
    """The checks of rope-relative-exact: scores depend on the distance, to what precision."""
    q, k, near = normal(1, HEAD, seed=1), normal(1, HEAD, seed=2), torch.tensor([3.0])

    def score(shift: int, dtype: torch.dtype) -> Tensor:
        at = near.to(dtype)
        return rotate(q.to(dtype), at + shift + 8)[0] @ rotate(k.to(dtype), at + shift)[0]

    start = score(0, torch.float64)
    checks = [
        same(
            f"float64: the score of a pair {shift:,} positions on",
            score(shift, torch.float64),
            start,
            notes="holds",
        )
        for shift in (1, 100, 10_000, FAR)
    ]
    scale = float(q.norm() * k.norm())
    narrow = score(10_000, torch.float32)
    angle = angles(near.double() + 1000)
    coarse = (angle.cos().bfloat16().double() - angle.cos()).abs().max()
    return [
        *checks,
        same(
            "float32 angles, 10,000 positions on, over |q||k|",
            narrow.double() / scale,
            start / scale,
            tolerance=1e-5,
        ),
        at_least(
            "error of a cosine stored in bfloat16", 1e-4, float(coarse), note="so tables are kept in float32"
        ),
        same(
            "a rotation keeps the length",
            rotate(q, near.double()).norm(),
            q.norm(),
            note="It acts on queries and keys. Word vectors, and cosines between them, never meet it.",
        ),
    ]


@torch.no_grad()
def rope_layout() -> list[Check]:
    """The checks of rope-elementwise-and-layout: four ways to write one rotation."""
    length = 16
    shape = dataclasses.replace(models.SHAPE, head_dim=HEAD, context_length=length)
    x, position = normal(length, HEAD), torch.arange(length, dtype=torch.float64)
    ours, _ = Rotary(shape, theta=BASE).double().rotate(x[None, None], x[None, None])
    angle = angles(position)
    pairs = torch.arange(HEAD).view(2, -1).T.flatten()  # half-split channels in the interleaved order
    dense = torch.stack(
        [
            torch.block_diag(
                *(torch.tensor([[a.cos(), -a.sin()], [a.sin(), a.cos()]], dtype=torch.float64) for a in row)
            )
            @ x[at, pairs]
            for at, row in enumerate(angle)
        ]
    )
    even, odd = x[:, pairs][:, ::2], x[:, pairs][:, 1::2]
    elementwise = torch.stack(
        [even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()], -1
    )
    turned = torch.view_as_real(
        torch.complex(even, odd) * torch.polar(torch.ones_like(angle), angle)
    ).flatten(1)
    split = rotate(x, position)[:, pairs]
    wrong = torch.stack([x[:, ::2] * angle.cos() - x[:, 1::2] * angle.sin()], -1)
    return [
        same("element by element = the block-diagonal matrix", elementwise.flatten(1), dense, notes="holds"),
        same("complex numbers = the same", turned, dense),
        same("half-split channels = the same after a permutation", split, dense),
        same("the project's rotation = the same", ours[0, 0][:, pairs], dense, tolerance=NEAR),
        equal(
            "FLOPs a vector by the matrix, counted, size 32",
            2 * HEAD**2,
            flops(lambda: x[:1] @ torch.eye(HEAD, dtype=x.dtype)),
            note="element by element 3 a channel: 96",
        ),
        differ(
            "interleaved rotation of half-split channels is something else",
            wrong[..., 0],
            dense[:, ::2],
            least=0.1,
            note="the two layouts must not be mixed",
        ),
    ]


@torch.no_grad()
def learned_has_no_row() -> list[Check]:
    """The exact part of the extrapolation claim."""
    model = models.model(models.run_config("position=learned"))
    length = model.context_length
    rows = model.position.weight.shape[0]
    try:
        model(models.tokens(1, length + 1))
        refused = False
    except ValueError:
        refused = True
    return [
        equal("rows of a learned table and the trained length", length, rows),
        equal("a text one token longer is refused", True, refused, notes="holds"),
    ]


CLAIMS: dict[str, Checks] = {
    "pos-permutation": permutation,
    "pos-additive-cross-terms": additive_cross_terms,
    "sine-definition": sine_definition,
    "rope-relative-exact": rope_relative,
    "rope-elementwise-and-layout": rope_layout,
    "extrap-sine-learned-fail": learned_has_no_row,
}
