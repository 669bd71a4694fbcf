"""What does the feed-forward layer compute?

Contract: [..., d_model] -> [..., d_model], each position on its own, no biases. 2 d_model d_ff weights where the
activation is plain, 3 d_model d_ff where it gates (Shazeer 2020, 2002.05202, eq. 5 and 6).
"""

from torch import Tensor, nn

from lab.model.activation import Activation
from lab.model.linear import Linear


class FFN(nn.Module):
    def __init__(self, d_model: int, d_ff: int, activation: Activation):
        super().__init__()
        self.activation = activation.function
        # Two matrices: one fused matrix for both measured no faster on a CPU.
        self.gate = Linear(d_model, d_ff) if activation.gated else None
        self.up = Linear(d_model, d_ff)
        self.down = Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is None:
            return self.down(self.activation(self.up(x)))
        return self.down(self.activation(self.gate(x)) * self.up(x))
