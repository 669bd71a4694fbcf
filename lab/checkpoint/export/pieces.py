"""How is a tensor of an architecture of transformers made of some of ours, and how are those got back?

Every packing only moves numbers, or adds a constant: gradients go over in the same way, less the constant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor


@dataclass(frozen=True)
class Piece:
    """One tensor of theirs, packed from some of ours. A module's name stands for its weight and its bias."""

    theirs: str
    ours: tuple[str, ...]
    pack: Callable[[tuple[Tensor, ...]], Tensor]
    unpack: Callable[[Tensor], tuple[Tensor, ...]]


def same(theirs: str, ours: str) -> Piece:
    """A tensor that goes over as it is."""
    return Piece(theirs, (ours,), lambda t: t[0], lambda t: (t,))


def less_one(theirs: str, ours: str) -> Piece:
    """A gain that they store without the 1 it starts from."""
    return Piece(theirs, (ours,), lambda t: t[0] - 1, lambda t: (t + 1,))


def joined(theirs: str, *ours: str, dim: int = 0) -> Piece:
    """Several of ours, one after the other along `dim`."""
    return Piece(theirs, ours, partial(torch.cat, dim=dim), lambda t: t.chunk(len(ours), dim))


def transposed(theirs: str, *ours: str) -> Piece:
    """[d_in, d_out] matrices, those of ours side by side."""
    return Piece(
        theirs,
        ours,
        lambda t: torch.cat(t).transpose(0, -1),
        lambda t: t.transpose(0, -1).chunk(len(ours)),
    )


def by_head(theirs: str, *ours: str, heads: int) -> Piece:
    """Rows of each head's q, then its k, then its v, then the next head's."""
    return Piece(
        theirs,
        ours,
        lambda t: torch.stack([x.unflatten(0, (heads, -1)) for x in t], 1).flatten(0, 2),
        lambda t: tuple(x.flatten(0, 1) for x in t.unflatten(0, (heads, len(ours), -1)).unbind(1)),
    )


def pairs_adjacent(theirs: str, ours: str, *, heads: int) -> Piece:
    """Rows of channels that rotate together stand side by side, not half a head apart."""
    return Piece(
        theirs,
        (ours,),
        lambda t: t[0].unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2),
        lambda t: (t.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2),),
    )
