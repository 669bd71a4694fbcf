"""How do attention and the feed-forward layer of one layer join the residual stream?

Contract: a module built as `variant(attention, ffn, make_placement, layer, **YAML)` that maps the stream [B,
T, d_model] to (stream, auxiliary loss, statistics). It owns the norm placements; drop sites and statistics
carry the layer's number.
- serial: x <- x + attention(N(x)), then x <- x + ffn(N(x)). Vaswani et al. 2017 (1706.03762), section 3.1.
- parallel: x + attention(N(x)) + ffn(N(x)) with one shared norm. GPT-J (Wang and Komatsuzaki 2021); PaLM
  (2204.02311), section 2.
- parallel_two_norms: x + attention(N1(x)) + ffn(N2(x)). GPT-NeoX (2204.06745), section 2.1.
"""

from collections.abc import Callable
from typing import Protocol

from torch import Tensor, nn

from lab.config.strict import ConfigError
from lab.model.ffn import Flow
from lab.model.norm_placement import NormPlacement
from lab.model.position import Position
from lab.model.published import Counterpart, counterpart, every_but

MakePlacement = Callable[[], NormPlacement]


class Drop(Protocol):
    """Dropout of a tensor; `site` names the place, so that each has masks of its own."""

    def __call__(self, x: Tensor, *, site: str) -> Tensor: ...


class Block(nn.Module):
    """One layer of the model. A variant says in `joined` how its two sub-layers join the stream."""

    def __init__(self, layer: int):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, position: Position, *, drop: Drop, diagnostics: bool) -> Flow:
        """The stream after the layer, its auxiliary loss, and statistics by name and the layer's number."""
        x, aux, stats = self.joined(x, position, drop=drop, diagnostics=diagnostics)
        if diagnostics:
            stats = stats | {"residual/rms": x.detach().square().mean().sqrt()}
        return x, aux, {f"{name}/{self.layer}": value for name, value in stats.items()}

    def joined(self, x: Tensor, position: Position, *, drop: Drop, diagnostics: bool) -> Flow:
        """The stream after both sub-layers, the auxiliary loss (a scalar), and the statistics."""
        raise NotImplementedError


class SerialBlock(Block):
    """Attention first; the feed-forward layer then reads what attention has added to."""

    def __init__(self, attention: nn.Module, ffn: nn.Module, make_placement: MakePlacement, layer: int):
        super().__init__(layer)
        # The order of parameters is that in which a gradient norm sums them; it must not move.
        self.attention_placement, self.attention = make_placement(), attention
        self.ffn_placement, self.ffn = make_placement(), ffn

    def joined(self, x: Tensor, position: Position, *, drop: Drop, diagnostics: bool) -> Flow:
        place = self.attention_placement
        y, stats = self.attention(place.before(x), position, diagnostics=diagnostics)
        x = place.after(place.skip(x) + drop(place.branch(y), site=f"attention/{self.layer}"))

        place = self.ffn_placement
        y, aux, of_ffn = self.ffn(place.before(x), diagnostics=diagnostics)
        x = place.after(place.skip(x) + drop(place.branch(y), site=f"ffn/{self.layer}"))
        return x, aux, stats | of_ffn


class ParallelBlockTwoNorms(Block):
    """Both sub-layers read the same stream, each behind a norm of its own."""

    def __init__(self, attention: nn.Module, ffn: nn.Module, make_placement: MakePlacement, layer: int):
        super().__init__(layer)
        # The order of parameters is that in which a gradient norm sums them; it must not move.
        self.attention_placement, self.attention = make_placement(), attention
        self.ffn_placement, self.ffn = make_placement(), ffn
        refuse_norm_of_the_sum(self.attention_placement)

    def joined(self, x: Tensor, position: Position, *, drop: Drop, diagnostics: bool) -> Flow:
        place = self.attention_placement
        y, stats = self.attention(place.before(x), position, diagnostics=diagnostics)
        y = drop(place.branch(y), site=f"attention/{self.layer}")

        place = self.ffn_placement
        z, aux, of_ffn = self.ffn(place.before(x), diagnostics=diagnostics)
        z = drop(place.branch(z), site=f"ffn/{self.layer}")
        return x + y + z, aux, stats | of_ffn


class ParallelBlock(Block):
    """Both sub-layers read the same normalised stream."""

    def __init__(self, attention: nn.Module, ffn: nn.Module, make_placement: MakePlacement, layer: int):
        super().__init__(layer)
        self.placement, self.attention, self.ffn = make_placement(), attention, ffn
        refuse_norm_of_the_sum(self.placement)
        if self.placement.normalizes_branch:
            raise ConfigError(
                "block = parallel: its branches share one norm of the input, but this norm_placement gives"
                " each branch a norm of its output. Use norm_placement=pre or block=parallel_two_norms."
            )

    def joined(self, x: Tensor, position: Position, *, drop: Drop, diagnostics: bool) -> Flow:
        shared = self.placement.before(x)
        y, stats = self.attention(shared, position, diagnostics=diagnostics)
        z, aux, of_ffn = self.ffn(shared, diagnostics=diagnostics)
        x = x + drop(y, site=f"attention/{self.layer}") + drop(z, site=f"ffn/{self.layer}")
        return x, aux, stats | of_ffn


def refuse_norm_of_the_sum(placement: NormPlacement) -> None:
    """Raises ConfigError where the placement needs the stream between the two sub-layers."""
    if placement.normalizes_stream:
        raise ConfigError(
            "block = parallel: this norm_placement normalises the stream after each sub-layer, and parallel"
            " branches have no stream between them. Use norm_placement=pre or block=serial."
        )


VARIANTS: dict[str, Callable[..., Block]] = {
    "serial": SerialBlock,
    "parallel": ParallelBlock,
    "parallel_two_norms": ParallelBlockTwoNorms,
}

PUBLISHED = {
    "serial": Counterpart(every_but("cohere2")),
    "parallel": counterpart("cohere2"),
    "parallel_two_norms": counterpart("gpt_neox"),
}
