"""One run's model, optimizer and data, and what is done with them: a step, and the evaluations.

The loss of a step is the mean over all its tokens whatever the micro-batches. The balance loss of experts is
that of each micro-batch, weighed by its rows, as a device of its own has it in Switch (arXiv:2101.03961), so
its gradient depends on `micro_rows`. Loss and gradient norm are checked before the optimizer moves a weight.
"""

from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lab.config.schema import RunConfig
from lab.data.evaluation import choice_batches, evaluation_batches, scored_documents
from lab.data.shards import Reading, Shards
from lab.model.transformer import Transformer
from lab.store.run_record import SkillSummary
from lab.store.spikes import SIGNALS
from lab.train.continuation import samples
from lab.train.evaluate import TextScore, evaluate, forced_choices, skill_table
from lab.train.lengths import evaluate_lengths
from lab.train.loss import cross_entropy, log_z, uniform_cross_entropy, z_loss
from lab.train.schedule import factor


class Step(NamedTuple):
    """What a step logs: values, diagnostics (or {}), bytes of the text it read, and why no weight was
    moved (or None).
    """

    values: dict[str, float]
    diagnostics: dict[str, float]
    bytes: int
    reason: str | None


class Trainer:
    """Takes the steps of a run. `after`: what its parents have read of the training text. documents: how many
    validation documents it scores.
    """

    def __init__(
        self,
        config: RunConfig,
        shards: Shards,
        model: Transformer,
        optimizer: torch.optim.Optimizer,
        *,
        device: str,
        after: tuple[Reading, ...] = (),
    ):
        self.config, self.shards, self.model, self.optimizer = config, shards, model, optimizer
        self.device, self.after = device, after
        self.forward = torch.compile(model) if config.precision.compile else model
        self.tokens_per_step = config.rows * config.shape.context_length
        points = config.evaluation.points
        self.evaluation_steps = {round(config.steps * (i + 1) / points) for i in range(points)}
        evaluation = config.evaluation
        self.documents = scored_documents(shards, documents=evaluation.documents, most_bytes=evaluation.bytes)
        self.validation = evaluation_batches(
            shards, config.shape.context_length, documents=self.documents, rows=evaluation.rows
        )

    def autocast(self) -> Any:
        return (
            torch.autocast(self.device, dtype=torch.bfloat16)
            if self.config.precision.dtype == "bfloat16"
            else nullcontext()
        )

    def step(self, step: int) -> Step:
        """One optimizer step, counted from 1."""
        config = self.config
        length = config.shape.context_length
        batch = self.shards.batch(
            step - 1, seed=config.seed, rows=config.rows, context_length=length, after=self.after
        )
        read = int(self.shards.token_bytes[batch[:, 1:]].sum())
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
        diagnostics = dict(zip(stats, rest, strict=True))
        # False for NaN as well.
        wrong = next((s for s in SIGNALS if not abs(values[s]) < float("inf")), None)
        if wrong is not None:
            return Step(values, diagnostics, read, f"{wrong} is not finite at step {step}")
        self.optimizer.step()
        return Step(values, diagnostics, read, None)

    def evaluate(self) -> TextScore:
        """Rows vary in length, so uncompiled."""
        autocast = self.autocast()
        return evaluate(self.model, self.validation, self.shards, device=self.device, autocast=autocast)

    def lengths(self) -> dict[str, float | None]:
        """Lengths vary, so uncompiled."""
        return evaluate_lengths(
            self.model,
            self.shards,
            self.config.evaluation.lengths,
            rows=self.config.evaluation.rows,
            device=self.device,
            autocast=self.autocast(),
        )

    def skills(self, evaluated: dict[str, Any]) -> dict[str, SkillSummary]:
        """Words, floor, excess and forced-choice accuracy of each skill; forced choices vary in length, so
        uncompiled.
        """
        if evaluated["val/excess_bpb"] is None:
            return {}
        evaluation = self.config.evaluation
        choices = choice_batches(
            self.shards,
            self.config.shape.context_length,
            choices=evaluation.choices,
            documents=self.documents,
            rows=evaluation.rows,
        )
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
