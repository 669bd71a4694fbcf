"""Which non-linearity stands in the feed-forward layer, and does it gate?

Contract: an elementwise function [..., d_ff] -> [..., d_ff]. A plain layer computes W_down f(W_up x), a gated
one W_down (f(W_gate x) * W_up x), with a third matrix (Shazeer 2020, 2002.05202, eq. 5 and 6).
- relu: max(0, x). gelu: x Phi(x), exact (Hendrycks and Gimpel 2016, 1606.08415). gelu_tanh: its approximation
  there, x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, which GPT-2, BLOOM and Gemma were trained with.
- silu: x sigmoid(x) (Elfwing et al. 2017, 1702.03118). relu2: max(0, x)^2 (So et al. 2021, 2109.08668).
- elu: x above 0, exp(x) - 1 below (Clevert et al. 2015, 1511.07289). selu: 1.0507 * elu with alpha 1.6733
  (Klambauer et al. 2017, 1706.02515).
- gated: glu = sigmoid (Dauphin et al. 2016, 1612.08083), bilinear = identity, reglu, geglu, geglu_tanh,
  swiglu = relu, gelu, gelu_tanh, silu.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from lab.model.published import GPT_LIKE, Counterpart, every_but


@dataclass(frozen=True)
class Activation:
    """An elementwise function, and whether the layer gates with it.

    published: what transformers calls the function, None where it has none such.
    """

    function: Callable[[Tensor], Tensor]
    gated: bool
    published: str | None


def identity(x: Tensor) -> Tensor:
    """Leaves x as it is: a gate without a non-linearity."""
    return x


def squared_relu(x: Tensor) -> Tensor:
    """max(0, x)^2."""
    return F.relu(x).square()


tanh_gelu = partial(F.gelu, approximate="tanh")

VARIANTS: dict[str, Activation] = {
    "relu": Activation(F.relu, gated=False, published="relu"),
    "gelu": Activation(F.gelu, gated=False, published="gelu"),
    "gelu_tanh": Activation(tanh_gelu, gated=False, published="gelu_pytorch_tanh"),
    "silu": Activation(F.silu, gated=False, published="silu"),
    "elu": Activation(F.elu, gated=False, published=None),
    "selu": Activation(F.selu, gated=False, published=None),
    "relu2": Activation(squared_relu, gated=False, published="relu2"),
    "glu": Activation(torch.sigmoid, gated=True, published="sigmoid"),
    "reglu": Activation(F.relu, gated=True, published="relu"),
    "geglu": Activation(F.gelu, gated=True, published="gelu"),
    "geglu_tanh": Activation(tanh_gelu, gated=True, published="gelu_pytorch_tanh"),
    "swiglu": Activation(F.silu, gated=True, published="silu"),
    "bilinear": Activation(identity, gated=True, published="linear"),
}

PUBLISHED = {
    name: Counterpart(every_but(*GPT_LIKE) if variant.gated else GPT_LIKE - {"bloom"})
    for name, variant in VARIANTS.items()
    if variant.published
} | {"gelu_tanh": Counterpart(GPT_LIKE)}  # BLOOM's code has no other
