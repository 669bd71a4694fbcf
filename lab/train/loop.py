"""The training loop: one run, from its first step or its newest checkpoint to an end state.

fp32 on CPUs, bf16 autocast over fp32 weights where asked; the loss of a step is the mean over all its tokens whatever the
micro-batches; loss and gradient norm are checked before the optimizer moves a weight. On CPU in fp32 with one thread a
resumed run repeats the uninterrupted one bit for bit.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from lab.config import RunConfig
from lab.data.evaluation import choice_batches, evaluation_batches
from lab.data.shards import Reading, Shards
from lab.model.initializer import initialize
from lab.model.transformer import Transformer
from lab.runs import RunStore
from lab.train import checkpoint
from lab.train.evaluate import evaluate, forced_choices, leak, skill_table
from lab.train.lengths import evaluate_lengths, name_of, undefined
from lab.train.loss import cross_entropy, log_z, uniform_cross_entropy, z_loss
from lab.train.optimizer import OPTIMIZERS
from lab.train.sample import samples
from lab.train.schedule import factor
from lab.train.stability import SIGNALS, Monitor

NOT_EVALUATED = (
    "val/loss", "val/bpb", "val/bytes", "val/entropy", "val/exact_bytes", "val/excess_bpb", "val/excess_error", "val/floor_bpb",
)  # fmt: skip


def train(
    config: RunConfig, shards: Shards, store: RunStore, run_id: str, *,
    device: str, checkpoint_seconds: float, stop: Callable[[], bool] = lambda: False,
    keep_every: int | None = None, until_step: int | None = None, after: tuple[Reading, ...] = (),
) -> str | None:  # fmt: skip
    """Train to an end state and return it; or, once `stop()` is true or `until_step` is reached, save a checkpoint and return None.

    Checkpoints at multiples of `keep_every` stay. A run with `init_from` starts from weights and moments of its parent, which
    and whose own parents read `after` of the training text.
    """
    model = Transformer(config)
    initialize(model, init=config.init, seed=config.seed)
    model = model.to(device)
    optimizer = OPTIMIZERS[config.optimizer.name](model, config, roles=model.roles())
    saved = store.load_checkpoint(run_id)
    step, bytes_seen = checkpoint.unpack(saved[1], model, optimizer, device=device) if saved else (0, 0)
    if config.init_from and not saved:
        checkpoint.unpack(store.parent_checkpoint(config), model, optimizer, device=device)
    logged = [line for line in store.metrics(run_id) if line["step"] <= step]
    lines = [line for line in logged if line["kind"] == "step"]
    if len(lines) != step:
        raise ValueError(f"metrics.jsonl has {len(lines)} steps where the checkpoint has {step}")
    evaluations = [line for line in logged if line["kind"] == "evaluation"]
    evaluated: dict[str, Any] | None = (
        {key: value for key, value in evaluations[-1].items() if key.startswith("val/")}
        if evaluations
        else None
    )
    monitor = Monitor(config, {signal: [line[signal] for line in lines] for signal in SIGNALS})
    run = _Run(config, shards, model, optimizer, monitor, device, after)
    log = store.open_metrics(run_id, after=step)

    def save(*, keep: bool = False) -> None:
        log.sync()
        payload = checkpoint.pack(model, optimizer, step=step, bytes_seen=bytes_seen)
        store.save_checkpoint(run_id, step, payload, keep=keep)

    reason, seconds, committed = None, sum(line["seconds"] for line in lines), time.monotonic()
    try:
        while step < config.steps and not reason:
            if step == until_step or stop():
                if step > (saved[0] if saved else 0):
                    save()
                return None
            step += 1
            began = time.perf_counter()
            values, diagnostics, reason = run.step(step)
            bytes_seen += run.batch_bytes
            at = {"step": step, "tokens": step * run.tokens_per_step}
            seconds += (elapsed := time.perf_counter() - began)
            records = [{"kind": "step", **at, "bytes": bytes_seen, **values, "seconds": round(elapsed, 6)}]
            if not reason:
                records += [{"kind": "spike", **at, **spike} for spike in monitor.observe(values)]
                reason = monitor.divergence()
            if diagnostics:
                records.append({"kind": "diagnostics", **at, **diagnostics})
            if not reason and step in run.evaluation_steps:
                evaluated = run.evaluate() | (run.lengths() if step == config.steps else {})
                records.append({"kind": "evaluation", **at, **evaluated})
            if not reason and step == config.steps:
                records += [{"kind": "sample", **at, **sample} for sample in run.samples()]
            log.write(records)
            keep = keep_every is not None and step % keep_every == 0
            if (
                not reason
                and (step == config.steps or keep or time.monotonic() - committed > checkpoint_seconds)
                and checkpoint.is_finite(model)
            ):
                save(keep=keep)
                committed = time.monotonic()
        progress = {"steps": step, "bytes": bytes_seen, "seconds": seconds}
        return _finish(store, run_id, run, progress, reason=reason, evaluated=evaluated)
    finally:
        log.close()


class _Run:
    """What stays the same from step to step of one run."""

    def __init__(
        self,
        config: RunConfig,
        shards: Shards,
        model: Transformer,
        optimizer: torch.optim.Optimizer,
        monitor: Monitor,
        device: str,
        after: tuple[Reading, ...] = (),
    ):
        self.after = after
        self.config, self.shards, self.model, self.optimizer, self.monitor, self.device = (
            config,
            shards,
            model,
            optimizer,
            monitor,
            device,
        )
        self.forward = torch.compile(model) if config.precision.compile else model
        self.tokens_per_step = config.rows * config.shape.context_length
        points = config.evaluation.points
        self.evaluation_steps = {round(config.steps * (i + 1) / points) for i in range(points)}
        evaluation = config.evaluation
        self.validation = evaluation_batches(
            shards, config.shape.context_length, documents=evaluation.documents, rows=evaluation.rows
        )
        self.batch_bytes = 0

    def autocast(self) -> Any:
        return (
            torch.autocast(self.device, dtype=torch.bfloat16)
            if self.config.precision.dtype == "bfloat16"
            else nullcontext()
        )

    def step(self, step: int) -> tuple[dict[str, float], dict[str, float], str | None]:
        """One optimizer step: its logged values, its diagnostics (or {}), and why no weight was moved (or None)."""
        config = self.config
        length = config.shape.context_length
        batch = self.shards.batch(
            step - 1, seed=config.seed, rows=config.rows, context_length=length, after=self.after
        )
        self.batch_bytes = int(self.shards.token_bytes[batch[:, 1:]].sum())
        rows = torch.from_numpy(batch).to(self.device)
        lr = config.optimizer.lr * factor(step, steps=config.steps, schedule=config.schedule)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        diagnose = step == 1 or step % config.monitor.diagnostics_every == 0
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.device)
        stats: dict[str, Tensor] = {}
        for part, micro in enumerate(rows.split(config.micro_rows)):
            with self.autocast():
                out = self.forward(
                    micro[:, :-1], dropout_key=(config.seed, step, part), diagnostics=diagnose and part == 0
                )
            nats = cross_entropy(out.logits, micro[:, 1:])
            loss = nats
            if smoothing := config.regularization.label_smoothing:
                loss = (1 - smoothing) * nats + smoothing * uniform_cross_entropy(out.logits)
            if config.stability.z_loss:
                loss = loss + config.stability.z_loss * z_loss(out.logits)
            (loss / self.tokens_per_step + out.aux * len(micro) / config.rows).backward()
            total += nats.detach()
            if diagnose and part == 0:
                stats = out.stats | {"logits/z": log_z(out.logits.detach()).mean()}
        if diagnose:
            stats |= _gradient_norms(self.model)
        parameters = [p for p in self.model.parameters() if p.grad is not None]
        norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        if config.optimizer.grad_clip is not None:
            nn.utils.clip_grads_with_norm_(parameters, config.optimizer.grad_clip, norm)
        loss_value, norm_value, *rest = torch.stack(
            [total / self.tokens_per_step, norm, *stats.values()]
        ).tolist()
        values = {"train/loss": loss_value, "grad/norm": norm_value, "lr": lr}
        finite = all(abs(values[signal]) < float("inf") for signal in SIGNALS)  # False for NaN as well
        if not finite:
            wrong = next(s for s in SIGNALS if not abs(values[s]) < float("inf"))
            return values, dict(zip(stats, rest, strict=True)), f"{wrong} is not finite at step {step}"
        self.optimizer.step()
        return values, dict(zip(stats, rest, strict=True)), None

    def evaluate(self) -> dict[str, Any]:
        """Rows vary in length, so uncompiled."""
        autocast = self.autocast()
        return evaluate(self.model, self.validation, self.shards, device=self.device, autocast=autocast)

    def lengths(self) -> dict[str, float | None]:
        """Lengths vary, so uncompiled."""
        return evaluate_lengths(
            self.model, self.shards, self.config.evaluation.lengths,
            rows=self.config.evaluation.rows, device=self.device, autocast=self.autocast(),
        )  # fmt: skip

    def skills(self, evaluated: dict[str, Any]) -> dict[str, Any]:
        """Words, floor, excess and forced-choice accuracy of each skill; forced choices vary in length, so uncompiled."""
        if evaluated["val/excess_bpb"] is None:
            return {}
        evaluation = self.config.evaluation
        choices = choice_batches(
            self.shards, self.config.shape.context_length,
            choices=evaluation.choices, documents=evaluation.documents, rows=evaluation.rows,
        )  # fmt: skip
        right = forced_choices(self.model, choices, self.shards, device=self.device, autocast=self.autocast())
        return skill_table(evaluated, right, self.validation, self.shards)

    def samples(self) -> list[dict[str, str]]:
        count = min(self.config.evaluation.samples, len(self.shards.validation_documents))
        if not count:
            return []
        return samples(self.model, self.shards, count=count, seed=self.config.seed, device=self.device)


def _gradient_norms(model: nn.Module) -> dict[str, Tensor]:
    """Gradient norm before clipping of each block and of each part outside the blocks."""
    squares: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        first, _, rest = name.partition(".")
        layer = f"block_{rest.partition('.')[0]}" if first == "blocks" else first
        if parameter.grad is not None:
            squares[layer] = (
                squares.get(layer, torch.zeros((), device=parameter.device)) + parameter.grad.square().sum()
            )
    return {f"grad/norm/{layer}": square.sqrt() for layer, square in squares.items()}


def _finish(
    store: RunStore, run_id: str, run: _Run, progress: dict[str, Any], *, reason: str | None, evaluated: dict[str, Any] | None
) -> str:  # fmt: skip
    """Write the summary; a run that ends above the unigram entropy of the validation text counts as diverged."""
    lengths, unigram = run.config.evaluation.lengths, run.shards.unigram_bpb
    evaluated = evaluated or dict.fromkeys(NOT_EVALUATED)
    if not reason and not evaluated["val/bpb"] <= unigram:
        reason = f"ended at {evaluated['val/bpb']:.3f} bits a byte, above the unigram entropy {unigram:.3f}"
    state = "diverged" if reason else "finished"
    losses, tokens = run.monitor.history["train/loss"], progress["steps"] * run.tokens_per_step
    summary = {
        "state": state, "reason": reason, **progress, "tokens": tokens, "epochs": tokens / run.shards.train_tokens,
        "tokens_per_second": tokens / progress["seconds"] if progress["seconds"] else None,
        "train/loss": losses[-1] if losses else None, **dict.fromkeys(map(name_of, lengths)), **evaluated,
        "skills": run.skills(evaluated), "warning": leak(evaluated),
        "spikes": run.monitor.summary(), "unigram_bpb": unigram, "attention_kernel": run.model.attention_kernel,
    }  # fmt: skip
    if lengths:
        summary["undefined_lengths"] = undefined(run.model, run.shards, lengths)
    store.finish(run_id, summary)
    return state
