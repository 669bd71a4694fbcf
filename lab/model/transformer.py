"""What is the model? A causal language model that reads top to bottom and names no variant of any axis.

tokens [B, T] -> embedding -> blocks (attention, feed-forward) -> final norm -> logits [B, T, vocab_size]
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from lab.config.schema import RunConfig
from lab.config.strict import ConfigError
from lab.model import activation, bias, block, ffn, norm, norm_placement, pattern, position
from lab.model.attention import SelfAttention
from lab.model.dropout import dropout
from lab.model.initializer import declared_roles
from lab.model.kernel import kernel_for
from lab.model.linear import Head, TokenEmbedding
from lab.model.pattern import LayerRule
from lab.model.position import Position
from lab.model.published import ANY, EVERY, Table, every_but

V = TypeVar("V")


class ModelOutput(NamedTuple):
    """What the model computes of a batch of tokens.

    logits: [B, T, vocab_size]; aux: the sum of the architecture's own losses, a scalar; stats: scalars by
    name.
    """

    logits: Tensor
    aux: Tensor
    stats: dict[str, Tensor]


def build_block(config: RunConfig, *, layer: int, rule: LayerRule) -> nn.Module:
    """Layer number `layer`, with modules of its own throughout."""
    shape, stability = config.shape, config.stability
    wire, wire_parameters = chosen("block", block.VARIANTS, config.block)
    place, place_parameters = chosen("norm_placement", norm_placement.VARIANTS, config.norm_placement)
    feed, feed_parameters = chosen("ffn", ffn.VARIANTS, config.ffn)
    kind, _ = chosen("activation", activation.VARIANTS, config.activation)
    biases, _ = chosen("bias", bias.VARIANTS, config.bias)

    def make_placement() -> nn.Module:
        return place(partial(build_norm, config), shape.num_layers, **place_parameters)

    attention = SelfAttention(
        shape,
        layer=layer,
        rule=rule,
        biases=biases,
        qk_norm=stability.qk_norm,
        qk_norm_joint=stability.qk_norm_joint,
        softcap=stability.attention_softcap,
    )
    feed_forward = feed(shape.d_model, shape.d_ff, kind, biases.other, **feed_parameters)
    return wire(attention, feed_forward, make_placement, layer, **wire_parameters)


class Transformer(nn.Module):
    """The model of one run. Its parameters mean nothing until lab/model/initializer.py has set them.

    Raises ConfigError on a variant that does not exist and on a combination that makes no sense.
    """

    def __init__(self, config: RunConfig):
        super().__init__()
        shape = config.shape
        encode, encode_parameters = chosen("position", position.VARIANTS, config.position)
        placement, _ = chosen("norm_placement", norm_placement.VARIANTS, config.norm_placement)
        allow, allow_parameters = chosen("pattern", pattern.VARIANTS, config.pattern)

        self.context_length = shape.context_length
        self.dropout_rate = config.regularization.dropout
        self.attention_softcap = config.stability.attention_softcap
        self.output_softcap = config.stability.output_softcap

        self.init_gains = placement.init_gains(shape.num_layers)
        if config.embedding.scaled:
            self.init_gains["embedding"] = shape.d_model**-0.5

        self.embedding = TokenEmbedding(shape.vocab_size, shape.d_model)
        self.embedding_scale = shape.d_model**0.5 if config.embedding.scaled else None
        self.embedding_norm = build_norm(config) if config.embedding.normed else nn.Identity()
        self.position: Position = encode(shape, **encode_parameters)
        self.rules: list[LayerRule] = allow(shape, **allow_parameters)
        pattern.check_positions(self.rules, self.position, name=config.position["name"])
        self.blocks = nn.ModuleList(
            build_block(config, layer=layer, rule=rule) for layer, rule in enumerate(self.rules)
        )
        self.final_norm = nn.Identity() if placement.normalizes_stream else build_norm(config)
        self.head = Head(shape.d_model, shape.vocab_size)
        self.head_scale: float | None = None
        if config.embedding.tied:
            self.head.weight = self.embedding.weight
            # Embeddings of size 1 would make logits of size sqrt(d_model): PaLM (2204.02311), section 5.1.
            self.head_scale = shape.d_model**-0.5 if config.embedding.head_scaled else None

    def forward(
        self, tokens: Tensor, *, dropout_key: Sequence[int] | None = None, diagnostics: bool = False
    ) -> ModelOutput:
        """Logits of every next token, with losses and statistics of the architecture's own.

        tokens: int64 [B, T], T <= context_length; a longer row raises ValueError. dropout_key: (seed, step,
        micro-batch) in training, None in evaluation. diagnostics adds, for each layer i, "residual/rms/i"
        (RMS of the stream after block i) and "attention/logit_max/i" (largest |q.k| / sqrt(head_dim) over
        past pairs, before the soft-cap).
        """
        if tokens.shape[1] > self.context_length:
            raise ValueError(
                f"a row of {tokens.shape[1]} tokens is longer than context_length {self.context_length}."
            )
        drop = partial(dropout, rate=self.dropout_rate, key=dropout_key)
        stats: dict[str, Tensor] = {}

        aux = torch.zeros((), device=tokens.device)
        x = self.embedding(tokens)
        if self.embedding_scale is not None:
            x = x * self.embedding_scale
        x = drop(self.position.embed(self.embedding_norm(x)), site="embedding")
        for layer in self.blocks:
            x, of_layer, stats_of_layer = layer(x, self.position, drop=drop, diagnostics=diagnostics)
            aux, stats = aux + of_layer, stats | stats_of_layer
        x = self.final_norm(x)
        if self.head_scale is not None:
            x = x * self.head_scale
        logits = self.head(x)
        if self.output_softcap is not None:
            logits = self.output_softcap * torch.tanh(logits / self.output_softcap)
        return ModelOutput(logits, aux, stats)

    @property
    def attention_kernel(self) -> str:
        """How attention is computed where the model now is (lab/model/kernel.py).

        Where layers differ, their kernels are joined by "+".
        """
        device, softcap = self.head.weight.device.type, self.attention_softcap
        kernels = {kernel_for(self.position, rule, softcap=softcap, device=device) for rule in self.rules}
        return "+".join(sorted(kernels))

    def extend(self, length: int) -> None:
        """Makes rows of up to `length` tokens defined.

        Raises ConfigError where the positions beyond those trained at are not.
        """
        self.position.extend(length)
        self.context_length = length

    def roles(self) -> dict[str, str]:
        """{parameter name: init role}, for the initializer and the optimizer's groups."""
        return declared_roles(self)


def build_norm(config: RunConfig) -> nn.Module:
    """A norm of d_model as the run asks for it, with values yet to be set."""
    variant, parameters = chosen("norm", norm.VARIANTS, config.norm)
    biases, _ = chosen("bias", bias.VARIANTS, config.bias)
    return variant(config.shape.d_model, biases.norm, **parameters)


def chosen(axis: str, variants: Mapping[str, V], choice: Mapping[str, Any]) -> tuple[V, dict[str, Any]]:
    """The variant that `choice` names and the parameters beside the name."""
    parameters = {key: value for key, value in choice.items() if key != "name"}
    if choice["name"] not in variants:
        raise ConfigError(f"{axis} = {choice['name']}: not implemented. Choose one of {', '.join(variants)}.")
    return variants[choice["name"]], parameters


PUBLISHED_KEYS: dict[str, Table] = {
    "embedding.tied": {False: EVERY, True: EVERY},
    "embedding.scaled": {False: every_but("gemma2"), True: frozenset({"gemma2"})},
    "embedding.head_scaled": {False: EVERY, True: frozenset({"cohere2"})},
    "embedding.normed": {False: every_but("bloom"), True: frozenset({"bloom"})},
    "stability.output_softcap": {None: EVERY, ANY: frozenset({"gemma2"})},
}
