"""How does the model know where a token stands?

Contract: one module per model, built as `variant(shape, **YAML)`, with four hooks that are called blindly and
change nothing unless the variant says so. Positions count from 0. Every variant but `learned` is defined at
any length: `extend`.
- rope: rotates q and k by angles that grow with position, so q.k depends on the distance alone. Su et al.
  2021 (2104.09864), eq. 34; channel i is paired with i + channels / 2 as in Llama and GPT-NeoX.
- rope_partial: the first `rotary_fraction` of each head is rotated, the rest left. GPT-NeoX (2204.06745),
  section 2.1.
- rope_interpolation: position / scale, so that `scale` times the trained length has trained angles. Chen et
  al. 2023 (2306.15595), section 2.3. rope_ntk: base theta scale^(d / (d - 2)) instead, which leaves the
  fastest channel as it was and divides the slowest by `scale`. NTK-aware, Peng et al. 2023 (2309.00071),
  section 3.1.
- learned: one trained vector a position, added to the embeddings. Gehring et al. 2017 (1705.03122).
- sine: fixed sines and cosines of wavelengths 2 pi to 2 pi base, added likewise. Vaswani et al. 2017, section
  3.5.
- alibi: head h adds -slope_h distance to the scores. Press et al. 2021 (2108.12409), section 3 and its code.
- t5: adds a trained number for the bucket of the distance and the head, the same in all layers; buckets are
  single distances up to num_buckets / 2 and grow in proportion up to max_distance. Raffel et al. 2019
  (1910.10683), section 2.1.
- relative: trained vectors a^K and a^V for each distance clipped at max_distance, added to the keys and the
  values as a query meets them; own ones in each layer, shared by the heads. Shaw et al. 2018 (1803.02155),
  section 3. A causal model meets max_distance + 1 of their 2 max_distance + 1 distances.
- none: the causal mask alone. Haviv et al. 2022 (2203.16634), Kazemnejad et al. 2023 (2305.19466).
"""

import math
from typing import cast

import torch
from torch import Tensor, nn

from lab.config.schema import Shape
from lab.config.strict import ConfigError
from lab.model.published import AT_ANY_VALUE, Counterpart, counterpart, every_but


class Position(nn.Module):
    """What every variant may do; each hook changes nothing unless the variant overrides it."""

    any_length = True  # defined beyond the length it was trained at

    def embed(self, x: Tensor) -> Tensor:
        """Token embeddings [B, T, d_model] -> what the first block reads, [B, T, d_model]."""
        return x

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Queries [B, num_heads, T, head_dim] and keys [B, num_kv_heads, T, head_dim] as they meet."""
        return q, k

    def bias(self, q: Tensor, *, layer: int) -> Tensor | None:
        """What is added to the scores of q [B, num_heads, T, head_dim], or None.

        It can be broadcast to [B, num_heads, T, T].
        """
        return None

    def read(self, weights: Tensor, *, layer: int) -> Tensor | None:
        """What the attention weights [B, num_heads, T, T] read beside the values, or None.

        It has the shape of the values read, [B, num_heads, T, head_dim].
        """
        return None

    def extend(self, length: int) -> None:
        """Makes positions 0 to length - 1 defined, beyond the context trained at.

        Raises ConfigError unless `any_length`.
        """

    def flops(self) -> int:
        """FLOPs of the hooks' matrix products for one token, forward."""
        return 0

    def acts(self, hook: str) -> bool:
        """Whether the variant says anything in this hook."""
        return getattr(type(self), hook) is not getattr(Position, hook)

    @property
    def acts_in_layers(self) -> bool:
        """Whether the variant says anything inside the layers, where it can be left out of some."""
        return any(map(self.acts, ("rotate", "bias", "read")))


class NoPosition(Position):
    """Positions are known from the causal mask alone."""

    def __init__(self, shape: Shape):
        super().__init__()


class Rotary(Position):
    """Rotates queries and keys by angles that grow with position."""

    cos: Tensor
    signed_sin: Tensor

    def __init__(self, shape: Shape, *, theta: float):
        super().__init__()
        self._rotate_at(_frequencies(shape.head_dim, theta), shape.context_length)

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        cos, signed_sin = self.cos[: q.shape[-2]], self.signed_sin[: q.shape[-2]]
        half = q.shape[-1] // 2
        # A roll with the sign in the table is a tenth faster on a CPU than Llama's split, negate and
        # concatenate.
        return q * cos + q.roll(half, -1) * signed_sin, k * cos + k.roll(half, -1) * signed_sin

    def extend(self, length: int) -> None:
        old = self.cos
        self._rotate_at(self.frequencies, length)
        self.to(old.device, old.dtype)

    def _rotate_at(self, frequencies: Tensor, length: int) -> None:
        self.frequencies = frequencies  # not a buffer: a model turned to bf16 must not round them
        angle = _angles(length, frequencies).repeat(1, 2)
        sign = torch.tensor([-1.0, 1.0], device="cpu").repeat_interleave(len(frequencies))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("signed_sin", angle.sin() * sign, persistent=False)


class PartialRotary(Rotary):
    """Rotates the first channels of each head. Raises ConfigError unless they are an even number."""

    def __init__(self, shape: Shape, *, theta: float, rotary_fraction: float):
        Position.__init__(self)
        self.channels = int(rotary_fraction * shape.head_dim)
        if not 2 <= self.channels <= shape.head_dim or self.channels % 2:
            fits = ", ".join(f"{_fraction(n, shape.head_dim):g}" for n in range(2, shape.head_dim + 1, 2))
            raise ConfigError(
                f"position.rotary_fraction = {rotary_fraction:g}: rotates {self.channels} of {shape.head_dim}"
                f" channels; it needs an even number of them. Use one of {fits}."
            )
        self._rotate_at(_frequencies(self.channels, theta), shape.context_length)

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        n = self.channels
        turned = super().rotate(q[..., :n], k[..., :n])
        return torch.cat((turned[0], q[..., n:]), -1), torch.cat((turned[1], k[..., n:]), -1)


def _fraction(channels: int, head_dim: int) -> float:
    """The least number of few digits that rotates so many channels: rounded down it would rotate one less."""
    return math.ceil(channels / head_dim * 1e4 - 1e-6) / 1e4


class InterpolatedRotary(Rotary):
    """Rotates as if positions were `scale` times closer together. Raises ConfigError for a scale of 0."""

    def __init__(self, shape: Shape, *, theta: float, scale: float):
        Position.__init__(self)
        if scale == 0:
            raise ConfigError("position.scale = 0: must be greater than 0; 1 leaves positions as they are.")
        self._rotate_at(_frequencies(shape.head_dim, theta) / scale, shape.context_length)


class NTKRotary(Rotary):
    """Rotates with a stretched base, felt most by slow channels. Raises ConfigError for tiny heads."""

    def __init__(self, shape: Shape, *, theta: float, scale: float):
        if shape.head_dim < 4:
            raise ConfigError(
                f"heads.head_dim = {shape.head_dim}: position=rope_ntk needs head size 4 or more."
            )
        super().__init__(shape, theta=theta * scale ** (shape.head_dim / (shape.head_dim - 2)))


class Learned(Position):
    """One trained vector for each position of the context, and none beyond."""

    any_length = False
    roles = {"weight": "position"}

    def __init__(self, shape: Shape):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape.context_length, shape.d_model))

    def embed(self, x: Tensor) -> Tensor:
        return x + self.weight[: x.shape[-2]]

    def extend(self, length: int) -> None:
        raise ConfigError(
            f"position = learned: has {len(self.weight)} trained positions and none beyond, so a context of"
            f" {length} is undefined. Choose another position."
        )


class Sine(Position):
    """Fixed sines and cosines, added to the embeddings."""

    table: Tensor

    def __init__(self, shape: Shape, *, base: float):
        super().__init__()
        self.d_model, self.base = shape.d_model, base
        self.register_buffer("table", self._table(shape.context_length), persistent=False)

    def embed(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[-2]]

    def extend(self, length: int) -> None:
        self.table = self._table(length).to(self.table)

    def _table(self, length: int) -> Tensor:
        angle = _angles(length, _frequencies(self.d_model, self.base))
        return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)[:, : self.d_model]


class ALiBi(Position):
    """A penalty of the scores that grows with distance, at one slope for each head."""

    slopes: Tensor

    def __init__(self, shape: Shape):
        super().__init__()
        self.register_buffer("slopes", torch.tensor(alibi_slopes(shape.num_heads), device="cpu"), False)

    def bias(self, q: Tensor, *, layer: int) -> Tensor:
        return -self.slopes[:, None, None] * _distance(q)


class T5(Position):
    """A trained bias of the scores for each head and bucket of distances. Raises ConfigError for too few."""

    roles = {"weight": "position_bias"}

    def __init__(self, shape: Shape, *, num_buckets: int, max_distance: int):
        super().__init__()
        if not 2 <= num_buckets < 2 * max_distance:
            raise ConfigError(
                f"position.num_buckets = {num_buckets}: must be from 2 to {2 * max_distance - 1}, for half of"
                f" the buckets are single distances below position.max_distance = {max_distance}."
            )
        self.num_buckets, self.max_distance = num_buckets, max_distance
        self.weight = nn.Parameter(torch.empty(num_buckets, shape.num_heads))

    def bias(self, q: Tensor, *, layer: int) -> Tensor:
        of_distance = self.weight[self.bucket(torch.arange(q.shape[-2], device=q.device))]
        return of_distance.T[:, _distance(q).clamp(min=0)]

    def bucket(self, distance: Tensor) -> Tensor:
        """The bucket of each distance of 0 or more: 0 to num_buckets - 1, of any shape."""
        single = self.num_buckets // 2
        octaves = torch.log(distance.float() / single) / math.log(self.max_distance / single)
        shared = single + (octaves.clamp(min=0) * (self.num_buckets - single)).long()
        return torch.where(distance < single, distance, shared.clamp(max=self.num_buckets - 1))


class Edges(nn.Module):
    """The two vectors of each distance in one layer, [max_distance + 1, head_dim]."""

    roles = {"keys": "position", "values": "position"}

    def __init__(self, max_distance: int, head_dim: int):
        super().__init__()
        self.keys = nn.Parameter(torch.empty(max_distance + 1, head_dim))
        self.values = nn.Parameter(torch.empty(max_distance + 1, head_dim))


class Relative(Position):
    """Trained vectors of each distance, read beside keys and values. Raises ConfigError for no distance."""

    def __init__(self, shape: Shape, *, max_distance: int):
        super().__init__()
        if max_distance < 1:
            raise ConfigError(f"position.max_distance = {max_distance}: must be 1 or more.")
        self.num_heads, self.max_distance = shape.num_heads, max_distance
        self.layers = nn.ModuleList(Edges(max_distance, shape.head_dim) for _ in range(shape.num_layers))

    def bias(self, q: Tensor, *, layer: int) -> Tensor:
        of_distance = (q * q.shape[-1] ** -0.5) @ self._edges(layer).keys.T
        return of_distance.gather(-1, self._clipped(q).expand(*q.shape[:-1], q.shape[-2]))

    def read(self, weights: Tensor, *, layer: int) -> Tensor:
        of_distance = weights.new_zeros(*weights.shape[:-1], self.max_distance + 1)
        of_distance = of_distance.scatter_add(-1, self._clipped(weights).expand_as(weights), weights)
        return of_distance @ self._edges(layer).values

    def flops(self) -> int:
        return sum(2 * self.num_heads * table.numel() for table in self.parameters())

    def _edges(self, layer: int) -> Edges:
        return cast(Edges, self.layers[layer])

    def _clipped(self, x: Tensor) -> Tensor:
        return _distance(x).clamp(0, self.max_distance)


def alibi_slopes(num_heads: int) -> list[float]:
    """2^(-8 h / n) for h = 1 to n heads where n is a power of 2, as in the paper's code.

    Else the slopes of the next smaller power, then every other one of the next larger.
    """
    power = 2 ** (num_heads.bit_length() - 1)
    return [2 ** (-8 * h / power) for h in range(1, power + 1)] + [
        2 ** (-4 * h / power) for h in range(1, 2 * (num_heads - power), 2)
    ]


def _distance(x: Tensor) -> Tensor:
    """How many tokens back the key (column) stands of the query (row), [T, T] for x [..., T, channels]."""
    at = torch.arange(x.shape[-2], device=x.device)
    return at[:, None] - at


def _frequencies(size: int, base: float) -> Tensor:
    """base^(-2i / size) in fp32, [ceil(size / 2)]. Raises ConfigError for a base of 0."""
    if base == 0:
        raise ConfigError("position: its base (theta) of 0 has no angles. Use more than 0, such as 10000.")
    # On the CPU even where the model is built without memory: arithmetic there would load all of torch's
    # compiler.
    return 1.0 / base ** (torch.arange(0, size, 2, device="cpu").float() / size)


def _angles(length: int, frequencies: Tensor) -> Tensor:
    """position * frequency in fp32, [length, frequencies]."""
    return torch.outer(torch.arange(length, device="cpu").float(), frequencies)


VARIANTS: dict[str, type[Position]] = {
    "rope": Rotary,
    "rope_partial": PartialRotary,
    "rope_interpolation": InterpolatedRotary,
    "rope_ntk": NTKRotary,
    "learned": Learned,
    "sine": Sine,
    "alibi": ALiBi,
    "t5": T5,
    "relative": Relative,
    "none": NoPosition,
}

PUBLISHED = {
    "rope": Counterpart(every_but("gpt2", "bloom"), {"theta": AT_ANY_VALUE}),
    "rope_partial": counterpart("gpt_neox", theta=AT_ANY_VALUE, rotary_fraction=AT_ANY_VALUE),
    "learned": counterpart("gpt2"),
    "alibi": counterpart("bloom"),
}
