"""The training loop: one run, from its first step or its newest checkpoint to an end state.

fp32 on CPUs, bf16 autocast over fp32 weights where asked. On CPU in fp32 with one thread a resumed run
repeats the uninterrupted one bit for bit.
"""

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from lab.config.schema import RunConfig
from lab.data.shards import Reading, Shards
from lab.model.initializer import initialize
from lab.model.transformer import Transformer
from lab.store.log_line import DIAGNOSTICS, EVALUATION, SAMPLE, SPIKE, STEP, LogLine
from lab.store.run_record import Summary
from lab.store.run_store import RunStore
from lab.store.spikes import SIGNALS
from lab.train import snapshot as checkpoint
from lab.train.evaluate import EVALUATED, TextScore, leak
from lab.train.lengths import name_of, undefined
from lab.train.optimizer import optimizer_of
from lab.train.stability import StabilityMonitor
from lab.train.trainer import Trainer

Measured = dict[str, Any]  # numbers of an evaluation by name, null where they are not finite


def train(
    config: RunConfig,
    shards: Shards,
    store: RunStore,
    run_id: str,
    *,
    device: str,
    checkpoint_seconds: float,
    stop: Callable[[], bool] = lambda: False,
    keep_every: int | None = None,
    keep_steps: tuple[int, ...] = (),
    until_step: int | None = None,
    after: tuple[Reading, ...] = (),
) -> str | None:
    """Train to an end state and return it; or, once `stop()` is true or `until_step` is reached, save a
    checkpoint and return None.

    Checkpoints at multiples of `keep_every` and at `keep_steps` stay. A run with `init_from` starts from
    weights and moments of its parent, which and whose own parents read `after` of the training text.
    """
    model = Transformer(config)
    initialize(model, init=config.init, seed=config.seed)
    model = model.to(device)
    optimizer = optimizer_of(config, model)
    saved = store.load_checkpoint(run_id)
    step, bytes_seen = checkpoint.unpack(saved[1], model, optimizer, device=device) if saved else (0, 0)
    if config.init_from and not saved:
        checkpoint.unpack(store.parent_checkpoint(config), model, optimizer, device=device)
    logged = [line for line in store.metrics(run_id) if line.step <= step]
    lines = [line.values for line in logged if line.kind == STEP]
    if len(lines) != step:
        raise ValueError(
            f"metrics.jsonl has {len(lines)} steps where the checkpoint has {step}; --retry starts it anew"
        )
    evaluations = [line.values for line in logged if line.kind == EVALUATION]
    evaluated: Measured | None = evaluations[-1] if evaluations else None
    score: TextScore | None = None  # the same where this process evaluated
    monitor = StabilityMonitor(config, {signal: [line[signal] for line in lines] for signal in SIGNALS})
    trainer = Trainer(config, shards, model, optimizer, device=device, after=after)
    log = store.open_metrics(run_id, after=step)

    def save(*, keep: bool = False) -> None:
        log.sync()
        payload = checkpoint.pack(model, optimizer, step=step, bytes_seen=bytes_seen)
        store.save_checkpoint(run_id, step, payload, keep=keep)

    reason, seconds = None, sum(line["seconds"] for line in lines)
    committed, at_time = step, time.monotonic()
    try:
        while step < config.steps and not reason:
            if step == until_step or stop():
                if step > committed:
                    save()
                if step == until_step:
                    store.pause(run_id)
                return None
            step += 1
            began = time.perf_counter()
            values, diagnostics, read, reason = trainer.step(step)
            bytes_seen += read
            at = partial(LogLine, step=step, tokens=step * trainer.tokens_per_step)
            seconds += (elapsed := time.perf_counter() - began)
            records = [at(STEP, values={"bytes": bytes_seen, **values, "seconds": round(elapsed, 6)})]
            if not reason:
                records += [at(SPIKE, values=spike._asdict()) for spike in monitor.observe(values)]
                reason = monitor.divergence()
            if diagnostics:
                records.append(at(DIAGNOSTICS, values=diagnostics))
            if not reason and step in trainer.evaluation_steps:
                score = trainer.evaluate()
                evaluated = score.values | (trainer.lengths() if step == config.steps else {})
                records.append(at(EVALUATION, values=evaluated))
            if not reason and step == config.steps and is_number(evaluated):
                records += [at(SAMPLE, values=sample) for sample in trainer.samples()]
            log.write(records)
            keep = step in keep_steps or (keep_every is not None and step % keep_every == 0)
            if (
                not reason
                and (step == config.steps or keep or time.monotonic() - at_time > checkpoint_seconds)
                and checkpoint.is_finite(model)
            ):
                save(keep=keep)
                committed, at_time = step, time.monotonic()
        return _finish(
            store,
            run_id,
            trainer,
            monitor,
            steps=step,
            bytes_seen=bytes_seen,
            seconds=seconds,
            reason=reason,
            evaluated=evaluated,
            score=score,
        )
    finally:
        log.close()


def is_number(evaluated: Measured | None) -> bool:
    """Whether the loss of an evaluation is one; the log has null for one that isn't finite."""
    loss = (evaluated or {}).get("val/bpb")
    return loss is not None and math.isfinite(loss)


def _finish(
    store: RunStore,
    run_id: str,
    trainer: Trainer,
    monitor: StabilityMonitor,
    *,
    steps: int,
    bytes_seen: int,
    seconds: float,
    reason: str | None,
    evaluated: Measured | None,
    score: TextScore | None,
) -> str:
    """Write the summary. reason: why the run stopped before its end, None where it took all its steps."""
    shards, model = trainer.shards, trainer.model
    lengths = trainer.config.evaluation.lengths
    learnt: bool | None = None
    at_end: TextScore | None = None
    if evaluated is None or not is_number(evaluated):
        reason = reason or f"validation loss not finite at step {steps}"
        evaluated = dict.fromkeys(EVALUATED)
    elif not reason:
        learnt = evaluated["val/bpb"] <= shards.unigram_bpb
        reason = monitor.divergence_at_end()
        at_end = score or trainer.evaluate()  # once more where the run was killed after its last evaluation
    losses, tokens = monitor.history["train/loss"], steps * trainer.tokens_per_step
    summary = Summary(
        state="diverged" if reason else "finished",
        reason=reason,
        steps=steps,
        tokens=tokens,
        bytes=bytes_seen,
        epochs=tokens / shards.train_tokens,
        seconds=seconds,
        tokens_per_second=tokens / seconds if seconds else None,
        unigram_bpb=shards.unigram_bpb,
        learnt=learnt,
        group_bpb=at_end.group_bpb if at_end else None,
        group_excess_bpb=at_end.group_excess_bpb if at_end else None,
        attention_kernel=model.attention_kernel,
        warning=leak(evaluated),
        spikes=monitor.summary(),
        skills=trainer.skills(evaluated),
        undefined_lengths=undefined(model, shards, lengths) if lengths else None,
        measured={
            "train/loss": losses[-1] if losses else None,
            **dict.fromkeys(map(name_of, lengths)),
            **evaluated,
        },
    )
    store.finish(run_id, summary)
    return summary.state
