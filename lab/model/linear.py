"""The matrices of the model: torch's, with declared roles and no values of their own.

Torch would fill them from its global generator, which nothing here may depend on; `initializer.py` gives
the values.
"""

from torch import nn


class Linear(nn.Linear):
    """[..., d_in] -> [..., d_out]."""

    roles = {"weight": "linear", "bias": "bias"}

    def __init__(self, d_in: int, d_out: int, *, bias: bool = False):
        super().__init__(d_in, d_out, bias=bias)

    def reset_parameters(self) -> None:
        """Leaves the weight to the initializer."""


class ValueLinear(Linear):
    """Makes what a sub-layer reads out: attention's values, the feed-forward layer's hidden vector."""

    roles = {"weight": "value", "bias": "bias"}


class ResidualLinear(Linear):
    """Makes what a sub-layer adds to the residual stream."""

    roles = {"weight": "residual", "bias": "bias"}


class Head(Linear):
    """Final vectors [B, T, d_model] -> logits [B, T, vocab_size]."""

    roles = {"weight": "head"}


class TokenEmbedding(nn.Embedding):
    """tokens [B, T] -> vectors [B, T, d_model]."""

    roles = {"weight": "embedding"}

    def __init__(self, vocab_size: int, d_model: int):
        super().__init__(vocab_size, d_model)

    def reset_parameters(self) -> None:
        """Leaves the weight to the initializer."""
