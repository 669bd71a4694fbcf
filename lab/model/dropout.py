"""Which activations are dropped?

Contract: dropout of the embeddings and of every sub-layer's branch before it joins the residual stream
(Vaswani et al. 2017, section 5.4), none inside attention. A mask is a function of (key, site) and of the
kind of device, so a resumed run drops what an undisturbed one drops, and no other randomness is shifted.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from lab.model.randomness import keyed_generator


def dropout(x: Tensor, *, rate: float, key: Sequence[int] | None, site: str) -> Tensor:
    """x * mask / (1 - rate). `key` = (seed, step, micro-batch); None, as in evaluation, drops nothing."""
    if key is None or rate == 0.0:
        return x
    return x * _mask(x.shape, rate, key, site, x.dtype, x.device)


# An operator of its own, for torch.compile can't look into a generator.
@torch.library.custom_op("lab::dropout_mask", mutates_args=())
def _mask(
    shape: Sequence[int],
    rate: float,
    key: Sequence[int],
    site: str,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    generator = keyed_generator("dropout", *key, site, device=device)
    mask = torch.empty(tuple(shape), dtype=dtype, device=device).bernoulli_(1.0 - rate, generator=generator)
    return mask.div_(1.0 - rate)


@_mask.register_fake
def _(
    shape: Sequence[int],
    rate: float,
    key: Sequence[int],
    site: str,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device=device)
