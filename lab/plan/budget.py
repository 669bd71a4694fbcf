"""What a configuration costs, counted before it runs.

Rules become an explicit shape here, since whether a layer is gated and how many parameters a variant has
is known to the model alone: parameters are counted on the model itself, built without memory.
"""

import dataclasses
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from lab.config.schema import Config, RunConfig, Shape, run_config
from lab.config.shape import heads, misfits, width_and_depth
from lab.config.strict import ConfigError, plain
from lab.model.activation import VARIANTS as ACTIVATIONS
from lab.model.bias import simplest
from lab.model.ffn import VARIANTS as FFNS
from lab.model.norm import VARIANTS as NORMS
from lab.model.transformer import Transformer
from lab.store.run_record import Counts

PLAIN_RATIO, GATED_RATIO = 4.0, 8 / 3  # of equal parameters: 2 * 4 = 3 * 8/3 (Shazeer 2020, arXiv:2002.05202)


BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class TrainingText:
    """What a plan needs to know of prepared data; notes: what its report should say of them; account: what
    was read of the user's own text, empty for any other; scored_tokens: of one evaluation.
    """

    fingerprint: str
    bytes_per_token: float
    train_tokens: int
    tokenizer_hash: str
    notes: tuple[str, ...] = ()
    account: str = ""
    scored_tokens: int = 0


def counts(run: RunConfig) -> Counts:
    """Counted on the model. FLOPs: 2 per weight of each matrix a token passes, 2 score products over the
    full context (no credit for causality or a pattern, as the products are computed outside of fused
    kernels) and what positions multiply, times 3 for forward and backward (Kaplan et al. 2020,
    arXiv:2001.08361, section 2.1). Of a mixture of experts those that are chosen for a token count, though
    all of them are computed (lab/model/ffn.py).
    """
    sizes, of_position, kept = _measured(json.dumps(plain(dataclasses.replace(run, seed=0, steps=1))))
    embedding = sum(n for role, n, _ in sizes if role in ("embedding", "position", "position_bias", "head"))
    total, active = sum(n for _, n, _ in sizes), sum(n for _, _, n in sizes)
    multiplied = sum(n for role, _, n in sizes if role in ("linear", "value", "residual", "head"))
    if run.embedding.tied:
        multiplied += run.shape.vocab_size * run.shape.d_model
    shape = run.shape
    attention = 4 * shape.context_length * shape.num_heads * shape.head_dim * shape.num_layers
    flops = 3 * (2 * multiplied + attention + of_position)
    cache = 2 * kept * shape.kv_heads * shape.head_dim * BYTES[run.precision.dtype] / shape.context_length
    values = sum(n for role, n, _ in sizes if role == "value")
    kept_hidden = values // shape.d_model - shape.num_layers * shape.kv_heads * shape.head_dim
    activations = _activation_bytes(run, hidden=kept_hidden)
    return Counts(total, total - embedding, embedding, flops, active - embedding, cache, activations)


def _activation_bytes(run: RunConfig, *, hidden: int) -> float:
    """Bytes a token of serial pre-norm blocks: each norm's input and output (4 d_model a layer and 2 at
    the end), queries, keys, values and what attention read, and of each of the `hidden` channels of the
    feed-forward layers, all experts among them, its activation's input and output, and where it gates the
    other factor and the product; logits in fp32 (the accounting of Korthikanti et al. 2022, 2205.05198,
    section 4.1, with fused attention). Other blocks keep up to 2 d_model a layer less or more; dropout
    masks, unfused scores and biases of scores, routers, and one d_model for each RMSNorm that torch
    computes in parts come on top.
    """
    shape, each = run.shape, 4 if ACTIVATIONS[run.activation["name"]].gated else 2
    heads = 2 * (shape.num_heads + shape.kv_heads) * shape.head_dim
    elements = shape.num_layers * (4 * shape.d_model + heads) + each * hidden + 2 * shape.d_model
    return float(elements * BYTES[run.precision.dtype] + 4 * shape.vocab_size)


@lru_cache(maxsize=4096)
def _measured(run_json: str) -> tuple[tuple[tuple[str, int, int], ...], int, int]:
    """(role, number of weights, of them at work for a token) of every parameter, FLOPs of the positions
    for a token, and keys kept of a full context, summed over layers; from a model without memory.
    """
    with torch.device("meta"):
        model = Transformer(run_config(json.loads(run_json)))
    roles = model.roles()
    shares = {
        id(p): getattr(module, "active_share", 1.0)
        for module in model.modules()
        for p in module.parameters(recurse=False)
    }
    sizes = tuple(
        (roles[name], p.numel(), round(p.numel() * shares[id(p)])) for name, p in model.named_parameters()
    )
    kept = sum(rule.kept(model.context_length) for rule in model.rules)
    return sizes, model.position.flops(), kept


def ratio(config: Config) -> float:
    """d_ff / d_model as asked: a number, or the rule of equal parameters."""
    if config.ffn_ratio.value is not None:
        return config.ffn_ratio.value
    return GATED_RATIO if ACTIVATIONS[config.activation["name"]].gated else PLAIN_RATIO


def networks_passed(config: Config) -> int:
    """Feed-forward networks of width d_ff that a token passes; their sum is what the ratio speaks of."""
    return int(FFNS[config.ffn["name"]].networks_passed(**config.ffn))


def shape(config: Config, *, d_model: int | None = None, num_layers: int | None = None) -> Shape:
    """The explicit shape of the rules, or of another width and depth. Raises ConfigError where heads don't
    fit the width.
    """
    asked = width_and_depth(config)
    d_model, num_layers = d_model or asked[0], num_layers or asked[1]
    if unfit := [f"{key}: {sentence}" for key, sentence in misfits(config, d_model)]:
        raise ConfigError(unfit)
    num_heads, head_dim = heads(config, d_model)
    d_ff = max(1, round(ratio(config) * d_model / networks_passed(config)))
    kv_heads = config.attention.num_kv_heads
    shared = None if kv_heads == num_heads else kv_heads
    return Shape(
        d_model,
        num_layers,
        num_heads,
        head_dim,
        d_ff,
        config.vocab.value,
        config.size.context_length,
        shared,
    )


def _norm_has_bias(config: Config) -> bool:
    return "bias" in getattr(NORMS[config.norm["name"]], "roles", {})


def resolve(config: Config, corpus: TrainingText, *, shape_: Shape | None = None) -> RunConfig:
    """Every rule of `config` resolved: shape (or the matched one given), rows, and steps from the budget.
    Raises ConfigError.
    """
    resolved = shape_ or shape(config)
    rows = config.batch.tokens_per_step // config.size.context_length
    values: dict[str, Any] = {
        f.name: getattr(config, f.name) for f in dataclasses.fields(RunConfig) if hasattr(config, f.name)
    }
    values["bias"] = {"name": simplest(config.bias["name"], norm_has_bias=_norm_has_bias(config))}
    run = RunConfig(
        **values,
        shape=resolved,
        steps=1,
        rows=rows,
        micro_rows=config.batch.micro_rows or rows,
        data_fingerprint=corpus.fingerprint,
    )
    counts(run)  # Builds the model, which refuses what does not fit together.
    tokens = {
        "tokens": lambda: config.budget.amount,
        "bytes": lambda: config.budget.amount / corpus.bytes_per_token,
        "flops": lambda: config.budget.amount / counts(run).flops_per_token,
    }[config.budget.unit]()
    steps = round(tokens / config.batch.tokens_per_step)
    if steps < 1:
        raise ConfigError(
            f"budget.amount = {config.budget.amount:g} {config.budget.unit}: less than one step of "
            f"{config.batch.tokens_per_step} tokens."
        )
    return dataclasses.replace(run, steps=steps)
