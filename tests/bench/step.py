"""How much slower is the training loop's step than a plain hand-written one? Same model, batches, optimizer.

    python tests/bench/step.py [--rounds 12] [--steps 10] [KEY=VALUE ...]

Prints the ratio of CPU time a step, loop over plain, as median and range over rounds; the two take turns
in one process.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from lab.config.compose import Override, compose
from lab.data.shards import Shards
from lab.model.initializer import initialize
from lab.model.transformer import Transformer
from lab.plan.budget import resolve
from lab.plan.planned_arm import prepared
from lab.train.optimizer import optimizer_of
from lab.train.schedule import factor
from lab.train.stability import StabilityMonitor
from lab.train.trainer import Trainer


def main() -> None:
    """Print the ratio of both steps, interleaved rounds, and its spread."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = compose([Override(text) for text in options.overrides])
    with tempfile.TemporaryDirectory() as cache:
        folder, corpus = prepared(config, cache=Path(cache), progress=None)
        run = resolve(config, corpus)
        shards = Shards.open(folder)
        ours, plain = _lab_steps(run, shards), _plain_steps(run, shards)
        ours(5), plain(5)
        ratios = []
        for _ in range(options.rounds):
            times = {}
            for name, steps in (("lab", ours), ("plain", plain)):
                began = time.process_time()
                steps(options.steps)
                times[name] = (time.process_time() - began) / options.steps
            ratios.append(times["lab"] / times["plain"])
            print(
                f"lab {times['lab'] * 1e3:.1f} ms, plain {times['plain'] * 1e3:.1f} ms, ratio "
                f"{ratios[-1]:.3f}"
            )
        print(f"ratio: median {statistics.median(ratios):.3f}, range {min(ratios):.3f} to {max(ratios):.3f}")


def _lab_steps(run, shards):
    """The step as the training loop takes it, with monitoring and every diagnostics interval."""
    model = Transformer(run)
    initialize(model, init=run.init, seed=0)
    monitor = StabilityMonitor(run, {})
    optimizer = optimizer_of(run, model)
    trainer = Trainer(run, shards, model, optimizer, device="cpu")
    at = iter(range(1, 10**9))

    def steps(n: int) -> None:
        for _ in range(n):
            monitor.observe(trainer.step(next(at) % run.steps + 1).values)

    return steps


def _plain_steps(run, shards):
    """What one would write by hand."""
    model = Transformer(run)
    initialize(model, init=run.init, seed=0)
    decayed = [p for n, p in model.named_parameters() if p.ndim == 2 and "embedding" not in n]
    rest = [p for n, p in model.named_parameters() if p.ndim != 2 or "embedding" in n]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=run.optimizer.lr, betas=(0.9, 0.95), fused=True)
    at = iter(range(1, 10**9))

    def steps(n: int) -> None:
        for _ in range(n):
            step = next(at) % run.steps + 1
            batch = torch.from_numpy(
                shards.batch(step - 1, seed=0, rows=run.rows, context_length=run.shape.context_length)
            )
            for group in optimizer.param_groups:
                group["lr"] = run.optimizer.lr * factor(step, steps=run.steps, schedule=run.schedule)
            optimizer.zero_grad(set_to_none=True)
            logits = model(batch[:, :-1]).logits
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss.item()

    return steps


if __name__ == "__main__":
    main()
