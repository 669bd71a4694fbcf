"""How does the model know where a token stands?

Contract: one module per model, built as `variant(shape, **YAML)`, with three hooks that are called blindly and change
nothing unless the variant says so. Positions count from 0 to at most context_length - 1.
- rope: rotates q and k by angles that grow with position, so q.k depends on the distance alone. Su et al. 2021
  (2104.09864), eq. 34; channel i is paired with i + head_dim / 2 as in Llama.
- learned: one trained vector a position, added to the embeddings. Gehring et al. 2017 (1705.03122).
- sine: fixed sines and cosines of wavelengths 2 pi to 2 pi base, added likewise. Vaswani et al. 2017, section 3.5.
- none: the causal mask alone. Kazemnejad et al. 2023 (2305.19466).
"""

import torch
from torch import Tensor, nn

from lab.config import Shape


class Position(nn.Module):
    def embed(self, x: Tensor) -> Tensor:
        """Token embeddings [B, T, d_model] -> what the first block reads, [B, T, d_model]."""
        return x

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys [B, num_heads, T, head_dim] -> the same, in every layer."""
        return q, k

    def bias(self, length: int) -> Tensor | None:
        """What is added to the attention scores, broadcastable to [B, num_heads, T, T], or None for nothing."""
        return None


class NoPosition(Position):
    def __init__(self, shape: Shape):
        super().__init__()


class Rotary(Position):
    cos: Tensor
    signed_sin: Tensor

    def __init__(self, shape: Shape, *, theta: float):
        super().__init__()
        angle = _angles(shape.context_length, shape.head_dim, theta).repeat(1, 2)
        sign = torch.tensor([-1.0, 1.0], device="cpu").repeat_interleave(shape.head_dim // 2)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("signed_sin", angle.sin() * sign, persistent=False)

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        cos, signed_sin = self.cos[: q.shape[-2]], self.signed_sin[: q.shape[-2]]
        half = q.shape[-1] // 2
        # A roll with the sign in the table is a tenth faster on a CPU than Llama's split, negate and concatenate.
        return q * cos + q.roll(half, -1) * signed_sin, k * cos + k.roll(half, -1) * signed_sin


class Learned(Position):
    roles = {"weight": "position"}

    def __init__(self, shape: Shape):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape.context_length, shape.d_model))

    def embed(self, x: Tensor) -> Tensor:
        return x + self.weight[: x.shape[-2]]


class Sine(Position):
    table: Tensor

    def __init__(self, shape: Shape, *, base: float):
        super().__init__()
        angle = _angles(shape.context_length, shape.d_model, base)
        table = torch.stack((angle.sin(), angle.cos()), -1).flatten(1)[:, : shape.d_model]
        self.register_buffer("table", table, persistent=False)

    def embed(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[-2]]


def _angles(length: int, size: int, base: float) -> Tensor:
    """position * base^(-2i / size) in fp32, [length, ceil(size / 2)]."""
    # On the CPU even where the model is built without memory: arithmetic there would load all of torch's compiler.
    even, positions = (
        torch.arange(0, size, 2, device="cpu").float(),
        torch.arange(length, device="cpu").float(),
    )
    return torch.outer(positions, 1.0 / base ** (even / size))


VARIANTS: dict[str, type[Position]] = {"rope": Rotary, "learned": Learned, "sine": Sine, "none": NoPosition}
