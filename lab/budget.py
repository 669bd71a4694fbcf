"""What a configuration costs, and the solver that gives every arm of an ablation the same.

Rules become an explicit shape here, since whether a layer is gated and how many parameters a variant has is known to the
model alone: parameters are counted on the model itself, built without memory.
"""

import dataclasses
import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from lab.config import Config, ConfigError, RunConfig, Shape, run_config
from lab.model.activation import VARIANTS as ACTIVATIONS
from lab.model.transformer import Transformer

PLAIN_RATIO, GATED_RATIO = 4.0, 8 / 3  # of equal parameters: 2 * 4 = 3 * 8/3 (Shazeer 2020, arXiv:2002.05202)


WIDEST = 48  # head sizes across, of the widths that are tried


@dataclass(frozen=True)
class Counts:
    """parameters = body + embedding (input, positions and untied head); flops_per_token: training, matrix products only."""

    parameters: int
    body_parameters: int
    embedding_parameters: int
    flops_per_token: int


@dataclass(frozen=True)
class Corpus:
    """What a budget needs to know of prepared data."""

    fingerprint: str
    bytes_per_token: float
    train_tokens: int
    tokenizer_hash: str


def counts(run: RunConfig) -> Counts:
    """Counted on the model. FLOPs: 2 per weight of each matrix a token passes, 2 score products over the full context
    (no causal credit), times 3 for forward and backward (Kaplan et al. 2020, arXiv:2001.08361, section 2.1)."""
    sizes = _sizes(json.dumps(dataclasses.asdict(dataclasses.replace(run, seed=0, steps=1))))
    embedding = sum(n for role, n in sizes if role in ("embedding", "position", "head"))
    total = sum(n for _, n in sizes)
    multiplied = sum(n for role, n in sizes if role in ("linear", "value", "residual", "head"))
    if run.embedding.tied:
        multiplied += run.shape.vocab_size * run.shape.d_model
    shape = run.shape
    attention = 4 * shape.context_length * shape.num_heads * shape.head_dim * shape.num_layers
    return Counts(total, total - embedding, embedding, 3 * (2 * multiplied + attention))


@lru_cache(maxsize=4096)
def _sizes(run_json: str) -> tuple[tuple[str, int], ...]:
    """(role, number of weights) of every parameter, from a model without memory."""
    with torch.device("meta"):
        model = Transformer(run_config(json.loads(run_json)))
    roles = model.roles()
    return tuple((roles[name], p.numel()) for name, p in model.named_parameters())


def ratio(config: Config) -> float:
    """d_ff / d_model as asked: a number, or the rule of equal parameters."""
    if config.ffn_ratio.value is not None:
        return config.ffn_ratio.value
    return GATED_RATIO if ACTIVATIONS[config.activation["name"]].gated else PLAIN_RATIO


def shape(config: Config, *, d_model: int | None = None, num_layers: int | None = None) -> Shape:
    """The explicit shape of the rules. Raises ConfigError where heads don't fit a width chosen by the aspect rule."""
    size, heads = config.size, config.heads
    if config.aspect.value is not None and d_model is None:
        d_model, num_layers = _aspect(config)
    d_model, num_layers = d_model or size.d_model, num_layers or size.num_layers
    head_dim = heads.head_dim or (d_model // heads.value if heads.value else size.head_dim)
    num_heads = heads.value or d_model // head_dim
    if heads.head_dim is None and num_heads * head_dim != d_model:
        raise ConfigError(
            f"heads.value = {num_heads}: does not divide d_model {d_model}. Set heads.head_dim."
        )
    d_ff = max(1, round(ratio(config) * d_model))
    return Shape(d_model, num_layers, num_heads, head_dim, d_ff, config.vocab.value, size.context_length)


def _aspect(config: Config) -> tuple[int, int]:
    """Width and depth whose quotient is nearest to the asked aspect at the size's body parameters (12 L d^2)."""
    asked, step = config.aspect.value or 1.0, config.heads.head_dim or config.size.head_dim
    body = config.size.num_layers * config.size.d_model**2
    widths = range(step, step * (2 + round((body * asked) ** (1 / 3) / step)), step)
    candidates = [(d, depth) for d in widths if (depth := round(body / d**2)) >= 1]
    return min(candidates, key=lambda c: abs(math.log(c[0] / c[1] / asked)))


def resolve(config: Config, corpus: Corpus, *, shape_: Shape | None = None) -> RunConfig:
    """Every rule of `config` resolved: shape (or the matched one given), rows, and steps from the budget. Raises ConfigError."""
    resolved = shape_ or shape(config)
    rows = config.batch.tokens_per_step // config.size.context_length
    values: dict[str, Any] = {
        f.name: getattr(config, f.name) for f in dataclasses.fields(RunConfig) if hasattr(config, f.name)
    }
    run = RunConfig(
        **values,
        shape=resolved,
        steps=1,
        rows=rows,
        micro_rows=config.batch.micro_rows or rows,
        data_fingerprint=corpus.fingerprint,
    )
    tokens = {
        "tokens": lambda: config.budget.amount,
        "bytes": lambda: config.budget.amount / corpus.bytes_per_token,
        "flops": lambda: config.budget.amount / counts(run).flops_per_token,
    }[config.budget.unit]()
    steps = round(tokens / config.batch.tokens_per_step)
    if steps < 1:
        raise ConfigError(
            f"budget.amount = {config.budget.amount:g} {config.budget.unit}: less than one step of {config.batch.tokens_per_step} tokens."
        )
    return dataclasses.replace(run, steps=steps)


def match(config: Config, run: RunConfig, *, hold: str, target: int, solve: str) -> Shape:
    """The shape of an arm whose `hold` count comes nearest to `target`.

    solve: "none" keeps the shape; "d_ff" solves d_ff; "width" steps d_model by the head size, solves d_ff at each, and takes
    the one whose ratio is nearest to the asked one. Raises ConfigError where no d_ff fits.
    """
    if solve == "none":
        return run.shape
    if solve == "d_ff":
        return _solve_d_ff(run, hold, target)
    step, candidates = config.heads.head_dim or config.size.head_dim, []
    for d_model in range(step, WIDEST * step, step):
        try:
            narrow = shape(config, d_model=d_model, num_layers=run.shape.num_layers)
            candidates.append(_solve_d_ff(dataclasses.replace(run, shape=narrow), hold, target))
        except ConfigError:
            continue
    if not candidates:
        raise ConfigError(f"size.head_dim = {step}: no width that is a multiple of it holds {target} {hold}.")
    return min(candidates, key=lambda s: abs(math.log(s.d_ff / s.d_model / ratio(config))))


def _solve_d_ff(run: RunConfig, hold: str, target: int) -> Shape:
    def held(d_ff: int) -> int:
        return int(
            getattr(counts(dataclasses.replace(run, shape=dataclasses.replace(run.shape, d_ff=d_ff))), hold)
        )

    one, two = held(1), held(2)
    d_ff = round(1 + (target - one) / (two - one))  # every count is linear in d_ff
    if d_ff < 1:
        raise ConfigError(
            f"d_model = {run.shape.d_model}: {one} {hold} without a feed-forward layer, above the {target} to match."
        )
    return dataclasses.replace(run.shape, d_ff=d_ff)
