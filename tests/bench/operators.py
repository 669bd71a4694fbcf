"""Where does a training step's time go, against where its operations are? By class of operator.

    python -m tests.bench.operators [KEY=VALUE ...]        such as size=micro, the default

Matrix products count as torch's FlopCounterMode does; every other operator as one operation for each
number it writes, softmax, norms and losses as five. Time is the operator's own, from torch's profiler, on
one thread.
"""

import argparse
from collections import Counter

import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from lab.config.compose import Override, compose
from lab.model.initializer import initialize
from lab.model.transformer import Transformer
from lab.plan.budget import TrainingText, resolve
from lab.train.optimizer import optimizer_of

CLASSES = ("matrix products", "softmax, norms, losses", "optimizer", "element-wise and the rest")
PRODUCTS = ("mm", "bmm", "scaled_dot_product", "flash_attention", "linear", "matmul")
NORMALISING = ("norm", "softmax", "logsumexp", "nll_loss", "rsqrt")


def class_of(operator: str) -> str:
    """The one of CLASSES that an operator of torch belongs to."""
    if "adam" in operator:
        return "optimizer"
    if any(part in operator for part in PRODUCTS):
        return "matrix products"
    if any(part in operator for part in NORMALISING):
        return "softmax, norms, losses"
    return "element-wise and the rest"


class Written(TorchDispatchMode):
    """Operations of all but matrix products, by class: numbers written, five times those of NORMALISING."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        kind = class_of(func.name())
        if kind != "matrix products":
            numbers = sum(
                t.numel() for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor)
            )
            if not getattr(func, "is_view", False):
                self.operations[kind] += numbers * (5 if kind == "softmax, norms, losses" else 1)
        return out


def main() -> None:
    """Print the shares of operations and of time by class."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(1)
    asked = options.overrides or ["size=micro"]
    corpus = TrainingText("", bytes_per_token=4.0, train_tokens=10**9, tokenizer_hash="")
    run = resolve(compose([Override(text) for text in asked]), corpus)
    model = Transformer(run)
    initialize(model, init=run.init, seed=0)
    optimizer = optimizer_of(run, model)
    batch = torch.randint(run.shape.vocab_size, (run.rows, run.shape.context_length + 1))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(batch[:, :-1]).logits.flatten(0, 1), batch[:, 1:].flatten()).backward()
        optimizer.step()

    step()
    with FlopCounterMode(display=False) as counter:
        step()
    with Written() as written:
        step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(options.steps):
            step()
    operations = Counter({"matrix products": counter.get_total_flops()}) + written.operations
    # The fused optimizer updates two moments and a weight in about a dozen operations a parameter.
    operations["optimizer"] = 12 * sum(p.numel() for p in model.parameters())
    times: Counter[str] = Counter()
    for event in profiler.key_averages():
        times[class_of(event.key.lower())] += event.self_cpu_time_total
    print(f"{' '.join(asked)}: {run.rows} rows of {run.shape.context_length} tokens, fp32, one thread")
    for name in CLASSES:
        share, time = operations[name] / operations.total(), times[name] / times.total()
        print(f"{name:28} {share:8.2%} of operations {time:8.2%} of time")


if __name__ == "__main__":
    main()
