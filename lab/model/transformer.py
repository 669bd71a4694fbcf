"""What is the model? A causal language model that reads top to bottom and names no variant of any axis.

tokens [B, T] -> embedding -> blocks (attention, feed-forward) -> final norm -> logits [B, T, vocab_size]
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lab.config import ConfigError, RunConfig
from lab.model import activation, block, ffn, norm, norm_placement, position
from lab.model.attention import Attention, Kernel, kernel_for
from lab.model.dropout import dropout
from lab.model.initializer import declared_roles
from lab.model.linear import Embedding, Head
from lab.model.position import Position


class Output(NamedTuple):
    """logits [B, T, vocab_size]; aux: the sum of the architecture's own losses, a scalar; stats: scalars by name."""

    logits: Tensor
    aux: Tensor
    stats: dict[str, Tensor]


def build_block(config: RunConfig, *, layer: int, kernel: Kernel) -> nn.Module:
    """Layer number `layer`, with modules of its own throughout."""
    shape, stability = config.shape, config.stability
    wire, wire_parameters = chosen("block", block.VARIANTS, config.block)
    place, place_parameters = chosen("norm_placement", norm_placement.VARIANTS, config.norm_placement)
    feed, feed_parameters = chosen("ffn", ffn.VARIANTS, config.ffn)
    kind, _ = chosen("activation", activation.VARIANTS, config.activation)

    def make_placement() -> nn.Module:
        return place(partial(build_norm, config), shape.num_layers, **place_parameters)

    attention = Attention(
        shape, qk_norm=stability.qk_norm, softcap=stability.attention_softcap, kernel=kernel
    )
    feed_forward = feed(shape.d_model, shape.d_ff, kind, **feed_parameters)
    return wire(attention, feed_forward, make_placement, layer, **wire_parameters)


class Transformer(nn.Module):
    """The model of one run. Its parameters mean nothing until `lab.model.initializer.initialize` has set them.

    `attention_kernel` says how attention is computed: "sdpa" (torch's fused kernel) or "masked" (scores written out).
    Raises ConfigError on a variant that does not exist.
    """

    def __init__(self, config: RunConfig):
        super().__init__()
        shape = config.shape
        encode, encode_parameters = chosen("position", position.VARIANTS, config.position)
        placement, _ = chosen("norm_placement", norm_placement.VARIANTS, config.norm_placement)

        self.context_length = shape.context_length
        self.dropout_rate = config.regularization.dropout
        self.output_softcap = config.stability.output_softcap

        self.embedding = Embedding(shape.vocab_size, shape.d_model)
        self.position: Position = encode(shape, **encode_parameters)
        self.attention_kernel = kernel_for(self.position, softcap=config.stability.attention_softcap)
        self.blocks = nn.ModuleList(
            build_block(config, layer=layer, kernel=self.attention_kernel) for layer in range(shape.num_layers)
        )
        self.final_norm = nn.Identity() if placement.normalizes_stream else build_norm(config)
        self.head = Head(shape.d_model, shape.vocab_size)
        self.head_scale: float | None = None
        if config.embedding.tied:
            self.head.weight = self.embedding.weight
            # Embeddings of size 1 would make logits of size sqrt(d_model): PaLM (2204.02311), section 5.1.
            self.head_scale = shape.d_model**-0.5

    def forward(
        self, tokens: Tensor, *, dropout_key: Sequence[int] | None = None, diagnostics: bool = False
    ) -> Output:
        """tokens: int64 [B, T], T <= context_length. dropout_key: (seed, step, micro-batch) in training, None in evaluation.

        diagnostics adds, for each layer i, "residual/rms/i" (RMS of the stream after block i) and
        "attention/logit_max/i" (largest |q.k| / sqrt(head_dim) over past pairs, before the soft-cap).
        """
        if tokens.shape[1] > self.context_length:
            raise ValueError(
                f"a row of {tokens.shape[1]} tokens is longer than context_length {self.context_length}."
            )
        drop = partial(dropout, rate=self.dropout_rate, key=dropout_key)
        stats: dict[str, Tensor] = {}

        aux = torch.zeros((), device=tokens.device)
        x = drop(self.position.embed(self.embedding(tokens)), site="embedding")
        for layer in self.blocks:
            x, of_layer, stats_of_layer = layer(x, self.position, drop=drop, diagnostics=diagnostics)
            aux, stats = aux + of_layer, stats | stats_of_layer
        x = self.final_norm(x)
        if self.head_scale is not None:
            x = x * self.head_scale
        logits = self.head(x)
        if self.output_softcap is not None:
            logits = self.output_softcap * torch.tanh(logits / self.output_softcap)
        return Output(logits, aux, stats)

    def roles(self) -> dict[str, str]:
        """{parameter name: init role}, for the initializer and the optimizer's groups."""
        return declared_roles(self)


def build_norm(config: RunConfig) -> nn.Module:
    variant, parameters = chosen("norm", norm.VARIANTS, config.norm)
    return variant(config.shape.d_model, **parameters)


def chosen(axis: str, variants: dict[str, Any], choice: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The variant that `choice` names and the parameters beside the name."""
    parameters = {key: value for key, value in choice.items() if key != "name"}
    if choice["name"] not in variants:
        raise ConfigError(f"{axis} = {choice['name']}: not implemented. Choose one of {', '.join(variants)}.")
    return variants[choice["name"]], parameters
