"""Which earlier tokens may each layer read?

Contract: `variant(shape, **YAML)` gives one rule a layer, from its index and the number of layers alone.
Causality comes on top and is not said again. Every query reads itself, so no row of scores is empty.
- full: the whole past.
- window: the last `window` tokens, itself among them. Mistral 7B (2310.06825), section 2.
- strided: layers in turn read the last `stride` tokens before themselves, and every stride-th token back.
  Child et al. 2019 (1904.10509), section 4.3, by turns as in section 5.1.
- fixed: layers in turn read their own block of `stride` tokens, and the last `summary` tokens of every block;
  same sections. There the first tokens would read nothing, so in the second kind of layer a token reads
  itself as well.
- interleaved: `local_layers` windows, then one layer that reads the whole past, and so on. Gemma 2
  (2408.00118) 1 : 1, Gemma 3 (2503.19786) 5 : 1. global_position none takes the positions from the global
  layers: Command A (2504.00698), Llama 4.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from lab.config.schema import Shape
from lab.config.strict import ConfigError
from lab.model.position import Position
from lab.model.published import AT_ANY_VALUE, Counterpart, counterpart, every_but

Sees = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class LayerRule:
    """What one layer may read.

    sees: (query index, key index) -> may it be read, elementwise, for keys of the past; None for all of it.
    kept: how many keys generation still needs after so many tokens. position: whether queries and keys get
    theirs in this layer.
    """

    sees: Sees | None = None
    kept: Callable[[int], int] = lambda tokens: tokens
    position: bool = True


def full(shape: Shape) -> list[LayerRule]:
    """Every layer reads the whole past."""
    return [LayerRule()] * shape.num_layers


def window(shape: Shape, *, window: int) -> list[LayerRule]:
    """Every layer reads the last `window` tokens. Raises ConfigError for more than the context holds."""
    return [_local(shape, window)] * shape.num_layers


def strided(shape: Shape, *, stride: int) -> list[LayerRule]:
    """Layers in turn read what is near, and every stride-th token. Raises ConfigError for a wrong stride."""
    _check_stride(shape, stride)
    near = LayerRule(lambda query, key: query - key <= stride, lambda tokens: min(tokens, stride + 1))
    far = LayerRule(lambda query, key: (query - key) % stride == 0)
    return [(near, far)[layer % 2] for layer in range(shape.num_layers)]


def fixed(shape: Shape, *, stride: int, summary: int) -> list[LayerRule]:
    """Layers in turn read their own block, and what sums up each block. Raises ConfigError likewise."""
    _check_stride(shape, stride)
    if not 1 <= summary < stride:
        raise ConfigError(
            f"pattern.summary = {summary}: must be from 1 to {stride - 1}, below pattern.stride."
        )

    def kept_summaries(tokens: int) -> int:
        past = tokens - 1  # and the token itself, be it in a summary or not
        return past // stride * summary + max(0, past % stride - (stride - summary)) + 1

    block = LayerRule(
        lambda query, key: query // stride == key // stride, lambda tokens: (tokens - 1) % stride + 1
    )
    summaries = LayerRule(
        lambda query, key: (key % stride >= stride - summary) | (query == key), kept_summaries
    )
    return [(block, summaries)[layer % 2] for layer in range(shape.num_layers)]


def interleaved(shape: Shape, *, window: int, local_layers: int, global_position: str) -> list[LayerRule]:
    """`local_layers` windows, then a layer that reads the whole past, and so on. Raises ConfigError."""
    if global_position not in ("keep", "none"):
        raise ConfigError(f"pattern.global_position = {global_position}: unknown. Known: keep, none.")
    if not 1 <= local_layers < shape.num_layers:
        raise ConfigError(
            f"pattern.local_layers = {local_layers}: {shape.num_layers} layers need from 1 to"
            f" {shape.num_layers - 1}, so that a global one follows. For none, choose pattern=window."
        )
    local, whole = _local(shape, window), LayerRule(position=global_position == "keep")
    return [local if (layer + 1) % (local_layers + 1) else whole for layer in range(shape.num_layers)]


def check_positions(rules: list[LayerRule], position: Position, *, name: str) -> None:
    """Raises ConfigError where layers shall go without positions that do nothing inside layers."""
    if not all(rule.position for rule in rules) and not position.acts_in_layers:
        raise ConfigError(
            f"pattern.global_position = none: position={name} does nothing inside the layers that could be"
            " left out. Choose position=rope or another that does, or pattern.global_position=keep."
        )


def _local(shape: Shape, window: int) -> LayerRule:
    if not 1 <= window < shape.context_length:
        raise ConfigError(
            f"pattern.window = {window}: a context of {shape.context_length} needs a window from 1 to"
            f" {shape.context_length - 1}. For the whole past, choose pattern=full."
        )
    return LayerRule(lambda query, key: query - key < window, lambda tokens: min(tokens, window))


def _check_stride(shape: Shape, stride: int) -> None:
    if not 2 <= stride < shape.context_length:
        raise ConfigError(
            f"pattern.stride = {stride}: a context of {shape.context_length} needs a stride from 2 to"
            f" {shape.context_length - 1}."
        )
    if shape.num_layers < 2:
        raise ConfigError(
            "size.num_layers = 1: this pattern takes turns between two kinds of layers. Use 2 or more, or"
            " pattern=window."
        )


VARIANTS: dict[str, Callable[..., list[LayerRule]]] = {
    "full": full,
    "window": window,
    "strided": strided,
    "fixed": fixed,
    "interleaved": interleaved,
}

PUBLISHED = {
    "full": Counterpart(every_but("mistral", "cohere2")),
    "window": counterpart("mistral", "mixtral", "gemma2", window=AT_ANY_VALUE),
    "interleaved": counterpart(
        "gemma2",
        "cohere2",
        window=AT_ANY_VALUE,
        local_layers=AT_ANY_VALUE,
        global_position={"keep": every_but("cohere2"), "none": frozenset({"cohere2"})},
    ),
}
