"""What values a configuration may hold, each alone and all together, in the user's terms.

`RULES` judges single keys; `_between` what only fits or clashes together. No rule knows a variant of any
axis by name.
"""

import math
import re
from collections.abc import Callable
from typing import Any

from lab.config.grammar import KNOBS
from lab.config.schema import Config
from lab.config.shape import misfits, width_and_depth
from lab.config.trackers import BOARDS, lack

Rule = tuple[str, Callable[[Config], Any], Callable[[Any], bool], str]


def _up_to(limit: float, *keys: str, of: str = "") -> list[Rule]:
    """Numbers above 0 that are too large to have sense beyond `limit`."""
    return [
        _rule(key, lambda v: 0 < v <= limit, f"must be greater than 0 and at most {limit:.15g}{of}.")
        for key in keys
    ]


def _from_zero(limit: float, *keys: str) -> list[Rule]:
    return [_rule(key, lambda v: 0 <= v <= limit, f"must be from 0 to {limit:.15g}.") for key in keys]


def _rule(key: str, holds: Callable[[Any], bool], otherwise: str) -> Rule:
    def value(config: Config) -> Any:
        node: Any = config
        for part in key.split("."):
            node = getattr(node, part)
        return node

    return key, value, holds, otherwise


def _setting(key: str, holds: Callable[[Any], bool], otherwise: str) -> Rule:
    """A rule for what some variants of a structural axis are told and others are not."""
    group, _, parameter = key.partition(".")
    return key, lambda config: getattr(config, group).get(parameter), holds, otherwise


def _name(key: str, most: int) -> Rule:
    """A name: some visible characters in a line."""
    return _rule(
        key,
        lambda v: v.strip() != "" and len(v) <= most and v.isprintable(),
        f"needs 1 to {most} visible characters.",
    )


def _own(key: str, holds: Callable[[Any], bool], otherwise: str) -> Rule:
    """A rule for what some variants of an axis of training are told and others are not."""
    group, _, parameter = key.partition(".")
    return key, lambda config: getattr(config, group).own.get(parameter), holds, otherwise


def _between_one_and(limit: int, key: str) -> Rule:
    return _rule(key, lambda v: 1 <= v <= limit, f"must be from 1 to {limit}.")


def _among(key: str, *known: str) -> Rule:
    return _rule(key, lambda v: v in known, f"unknown. Known: {', '.join(known)}.")


# Beyond any model this lab could train; a slip of the keyboard would otherwise fill the memory.
LIMITS = {
    "size.d_model": 65_536,
    "size.num_layers": 1_024,
    "size.head_dim": 4_096,
    "size.context_length": 2**20,
    "size.vocab_size": 2**20,
    "heads.value": 4_096,
    "heads.head_dim": 4_096,
    "attention.num_kv_heads": 4_096,
}

MOST_TOKENS, MOST_STORIES = 10**15, 10**8
MOST_RATE = 1000.0

RULES: tuple[Rule, ...] = (
    _rule("seed", lambda v: 0 <= v < 2**32, "needs a whole number from 0 to 4294967295."),
    _rule(
        "init_from",
        lambda v: re.fullmatch(r"[0-9a-f]{1,12}@([0-9]{1,12}|last)", v) is not None,
        "needs RUN@STEP: the id of a run, or its beginning, and a step whose checkpoint it kept, or last.",
    ),
    *(_between_one_and(limit, key) for key, limit in LIMITS.items()),
    *_up_to(2**30, "size.tokens_per_step", "batch.tokens_per_step", "batch.micro_rows"),
    *_up_to(MOST_TOKENS, "size.tokens", "size.bytes", "size.first_horizon"),
    *_up_to(MOST_RATE, "size.lr", "optimizer.lr", of=", beyond which nothing learns"),
    *_up_to(MOST_STORIES, "size.stories"),
    _rule("ffn_ratio.value", lambda v: 0.01 <= v <= 1024, "must be between 0.01 and 1024."),
    _rule("aspect.value", lambda v: 0.5 <= v <= 4096, "must be between 0.5 and 4096."),
    _rule(
        "vocab.value",
        lambda v: 257 <= v <= 2**20,
        "needs 257 (256 bytes and <|endoftext|>) to 1048576 tokens.",
    ),
    _among("vocab.tokenizer", "bytes", "bpe"),
    _rule("regularization.dropout", lambda v: 0 <= v < 1, "must be at least 0 and below 1."),
    *_from_zero(100, "regularization.weight_decay", "stability.z_loss"),
    _rule("regularization.label_smoothing", lambda v: 0 <= v < 1, "must be at least 0 and below 1."),
    *_up_to(1e6, "stability.attention_softcap", "stability.output_softcap"),
    _rule(
        "init.embedding_std",
        lambda v: 0 < v <= 100,
        "all embeddings would start equal to zero, or beyond any use. Use more than 0 and at most 100.",
    ),
    *_up_to(100, "init.cutoff", "init.std"),
    _setting("norm.eps", lambda v: 0 <= v <= 1, "must be from 0 to 1: more would drown what is normed."),
    *(
        _setting(key, lambda v: 1 <= v <= 1e12, "must be from 1 to 1e12, the base of the wavelengths.")
        for key in ("position.theta", "position.base")
    ),
    _setting("position.scale", lambda v: 0 < v <= 1e6, "must be greater than 0 and at most 1e6."),
    _setting("position.max_distance", lambda v: 1 <= v <= 2**20, "must be from 1 to 1048576."),
    *(
        _setting(f"ffn.{key}", lambda v: 1 <= v <= 4096, "must be from 1 to 4096.")
        for key in ("experts", "top_k", "shared")
    ),
    _setting("ffn.balance", lambda v: 0 <= v <= 100, "must be from 0 to 100."),
    *(
        _own(f"optimizer.{key}", lambda v: 0 <= v < 1, "must be at least 0 and below 1.")
        for key in ("beta1", "beta2", "momentum")
    ),
    *(
        _own(f"optimizer.{key}", lambda v: 0 < v <= 1, "must be greater than 0 and at most 1.")
        for key in ("eps", "eps1", "eps2", "decay_rate")
    ),
    _own("optimizer.clip_threshold", lambda v: 1 <= v <= 1e6, "must be from 1 to 1e6."),
    _own("optimizer.ns_steps", lambda v: 1 <= v < 100, "must be from 1 to 99."),
    _rule(
        "optimizer.grad_clip",
        lambda v: v > 0,
        "would remove every gradient. Write null to switch clipping off.",
    ),
    _rule("optimizer.grad_clip", lambda v: v <= 1e6, "clips nothing. Write null to switch clipping off."),
    _rule(
        "schedule.warmup_fraction", lambda v: 0 <= v < 1, "must be below 1: the peak would never be reached."
    ),
    _rule("schedule.final_fraction", lambda v: 0 <= v <= 1, "must be between 0 and 1 of the peak."),
    _own("schedule.decay_fraction", lambda v: 0 < v <= 1, "must be above 0 and at most 1 of all steps."),
    _rule(
        "data.validation_fraction",
        lambda v: 0 < v < 1,
        "must be above 0 and below 1: both splits need documents.",
    ),
    *(
        _rule(f"data.{key}", lambda v: v.strip() != "", "is empty. Give a file or folder, or null.")
        for key in ("path", "validation_path")
    ),
    _name("data.text_field", 200),
    *_from_zero(MOST_STORIES, "data.stories", "data.validation_stories"),
    _rule("data.seed", lambda v: 0 <= v < 2**32, "needs a whole number from 0 to 4294967295."),
    *(_rule(f"data.grammar.{name}", knob.holds, knob.otherwise) for name, knob in KNOBS.items()),
    *_up_to(1e30, "budget.amount"),
    _among("budget.unit", "tokens", "bytes", "flops"),
    _among("precision.dtype", "float32", "bfloat16"),
    *_up_to(100_000, "evaluation.points", "evaluation.rows"),
    *_up_to(10**12, "evaluation.documents", "evaluation.bytes"),
    *_up_to(10**9, "monitor.diagnostics_every", "monitor.divergence_patience", "engine.keep_every"),
    *_from_zero(100_000, "evaluation.choices"),
    _rule("evaluation.samples", lambda v: 0 <= v <= 64, "must be from 0 to 64."),
    _rule(
        "evaluation.lengths",
        lambda v: sorted(set(v)) == v and all(1 <= k <= 64 for k in v),
        "needs different multiples of the context length in order, each from 1 to 64, such as [1,2,4,8].",
    ),
    _rule("monitor.spike_window", lambda v: 2 <= v <= 10**6, "needs from 2 to 1000000 steps."),
    *_up_to(1000, "monitor.spike_threshold", "monitor.divergence_factor"),
    _among("tracker.name", "none", *BOARDS),
    _among("tracker.mode", "auto", "offline", "online"),
    _name("tracker.project", 128),
    _rule("tracker.project", lambda v: not set(v) & set("/\\#?%:"), "W&B takes none of / \\ # ? % : in it."),
    *_up_to(4096, "engine.workers"),
    _among("engine.device", "auto", "cpu", "cuda"),
    *_from_zero(10**7, "engine.checkpoint_seconds"),
)


def problems_of(config: Config) -> list[tuple[str, str]]:
    """Everything wrong with single values and between them, as (key, sentence). Empty when all is well."""
    found = []
    for key, value_of, holds, otherwise in RULES:
        value = value_of(config)
        if value is None:
            continue
        if isinstance(value, float) and not math.isfinite(value):
            found.append((key, "must be a finite number."))
        elif not holds(value):
            found.append((key, otherwise))
    return found or _between(config)


def _between(config: Config) -> list[tuple[str, str]]:
    found = list(misfits(config, width_and_depth(config)[0]))
    context = config.size.context_length
    if config.stability.qk_norm_joint and not config.stability.qk_norm:
        found.append(("stability.qk_norm_joint", "there is no norm to join. Set stability.qk_norm=true too."))
    if config.init.uniform and config.init.cutoff is not None:
        found.append(("init.cutoff", "a uniform distribution has no tail to cut. Write null."))
    if not config.embedding.tied and not config.embedding.head_scaled:
        found.append(("embedding.head_scaled", "an untied head is never scaled. Leave it true or tie it."))
    if config.batch.tokens_per_step % context:
        nearest = max(1, round(config.batch.tokens_per_step / context)) * context
        found.append(
            (
                "batch.tokens_per_step",
                f"is not a multiple of the context length {context}. Nearest: {nearest}.",
            )
        )
    elif config.batch.micro_rows and (config.batch.tokens_per_step // context) % config.batch.micro_rows:
        found.append(
            (
                "batch.micro_rows",
                f"does not divide the {config.batch.tokens_per_step // context} rows of a step.",
            )
        )
    if config.budget.unit == "tokens" and config.budget.amount < config.batch.tokens_per_step:
        found.append(("budget.amount", f"is less than one batch of {config.batch.tokens_per_step} tokens."))
    if config.budget.unit != "flops" and config.budget.amount > MOST_TOKENS:
        found.append(("budget.amount", f"is more than {MOST_TOKENS:.0e} {config.budget.unit}."))
    if config.vocab.tokenizer == "bytes" and config.vocab.value != 257:
        found.append(
            (
                "vocab.value",
                "the byte tokenizer has 257 tokens. Leave it at 257 or choose vocab.tokenizer=bpe.",
            )
        )
    if config.optimizer.own.get("nesterov") and not config.optimizer.own.get("momentum"):
        found.append(("optimizer.nesterov", "there is no momentum to look ahead along. Write false."))
    if config.schedule.warmup_fraction + config.schedule.own.get("decay_fraction", 0) > 1:
        found.append(("schedule.decay_fraction", "warm-up and decay are longer than training. Shorten one."))
    if lacking := lack(config.tracker.name):
        found.append(("tracker.name", lacking))
    return found
