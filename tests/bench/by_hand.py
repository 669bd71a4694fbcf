"""The training script that one would write by hand: Hydra composes, W&B logs offline, a plain loop trains.

python -m tests.bench.by_hand KEY=VALUE ...     one run in this process, for tests/bench/peers.py
"""

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.config.compose import Override, compose
from lab.config.schema import RunConfig
from lab.data.shards import Shards
from lab.model.initializer import initialize
from lab.model.transformer import Transformer
from lab.plan.budget import resolve
from lab.plan.planned_arm import prepared
from lab.train.schedule import factor

Logits = Callable[[Tensor], Tensor]
Log = Callable[[dict[str, float]], object]


def loop(
    run: RunConfig, shards: Shards, of: tuple[nn.Module, Logits], *, log: Log = lambda values: None
) -> Callable[[int], None]:
    """Takes so many steps: clip at 1, fused AdamW with decay of matrices alone, the loss read back."""
    model, logits = of
    decayed = [p for n, p in model.named_parameters() if p.ndim == 2 and "emb" not in n]
    rest = [p for n, p in model.named_parameters() if p.ndim != 2 or "emb" in n]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=run.optimizer.lr, betas=(0.9, 0.95), fused=True)
    at, length = itertools.count(), run.shape.context_length

    def steps(count: int) -> None:
        for _ in range(count):
            step = next(at) % run.steps + 1
            batch = torch.from_numpy(
                shards.batch(step - 1, seed=run.seed, rows=run.rows, context_length=length)
            )
            for group in optimizer.param_groups:
                group["lr"] = run.optimizer.lr * factor(step, steps=run.steps, schedule=run.schedule)
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(logits(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            log({"train/loss": loss.item(), "grad/norm": float(norm)})

    return steps


def main() -> None:
    import wandb

    torch.set_num_threads(1)
    config = compose([Override(text) for text in sys.argv[1:]])
    folder, corpus = prepared(config, cache=Path(os.environ["LAB_CACHE"]), progress=None)
    run = resolve(config, corpus)
    board = wandb.init(project="by-hand", mode="offline", dir=os.environ["LAB_RESULTS"])
    model = Transformer(run)
    initialize(model, init=run.init, seed=run.seed)
    loop(run, Shards.open(folder), (model, lambda tokens: model(tokens).logits), log=board.log)(run.steps)
    board.finish()


if __name__ == "__main__":
    main()
