"""How fast is the lab beside what one would use instead? The same work in turns, in one file of results.

    python -m tests.bench.peers step [--rounds 8] [KEY=VALUE ...]     one step, CPU time on one thread
    python -m tests.bench.peers sweep [--steps 60] [KEY=VALUE ...]    12 runs, two at a time

step: the training loop's own step against a loop written by hand around the same model, and against models
of the same shape from Hugging Face transformers, litgpt and x-transformers, those that are installed, in
that loop. litgpt doesn't tie its head, so its optimizer has one table more. sweep: `lab train -m` against a
process a run that composes with Hydra, logs to W&B offline and trains in the loop by hand
(tests/bench/by_hand.py), by wall and CPU time.

Writes results/bench/peers-step.json and peers-sweep.json. Time nothing while anything else runs.
"""

import argparse
import importlib.util
import itertools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lab.commands import places
from lab.config.compose import Override, compose
from lab.config.schema import RunConfig
from lab.data.shards import Shards
from lab.model.initializer import initialize
from lab.model.transformer import Transformer
from lab.plan.budget import resolve
from lab.plan.planned_arm import prepared
from lab.store import provenance
from lab.store.files import dumps, write_atomic
from lab.train.optimizer import optimizer_of
from lab.train.stability import StabilityMonitor
from lab.train.trainer import Trainer
from tests.bench.by_hand import Logits, loop
from tests.paths import ROOT

STEPS = 8  # a round
WARM_UP = 4
RUNS = [f"norm={norm} seed={seed}" for norm in ("rmsnorm", "layernorm") for seed in range(6)]
SHORT = ["evaluation.points=1", "evaluation.documents=2", "evaluation.choices=0", "evaluation.samples=0"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("step", "sweep"))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.what == "step":
            found = of_step(Path(folder), options.overrides, rounds=options.rounds)
        else:
            found = of_sweep(Path(folder), options.overrides, steps=options.steps)
    here = provenance.here("cpu")
    machine = {
        "device": here.device,
        "cores": here.cores,
        "torch": here.torch,
        "date": date.today().isoformat(),
    }
    path = places.RESULTS / "bench" / f"peers-{options.what}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, dumps({"overrides": options.overrides, **machine, **found}, indent=1) + "\n")
    print(path)


def of_step(cache: Path, overrides: list[str], *, rounds: int) -> dict[str, Any]:
    """Milliseconds of CPU time a step by program, and ratios to the lab's of each round."""
    torch.set_num_threads(1)
    config = compose([Override(text) for text in overrides])
    data, corpus = prepared(config, cache=cache, progress=None)
    run = resolve(config, corpus)
    shards = Shards.open(data)
    programs = {"lab": _lab(run, shards), "loop by hand": loop(run, shards, _own(run))}
    for name, (package, logits) in PEERS.items():
        if importlib.util.find_spec(package):
            programs[name] = loop(run, shards, logits(run))
    times: dict[str, list[float]] = {name: [] for name in programs}
    for steps in programs.values():
        steps(WARM_UP)
    for _ in range(rounds):
        for name, steps in programs.items():
            began = time.process_time()
            steps(STEPS)
            times[name].append(1e3 * (time.process_time() - began) / STEPS)
        print({name: round(of[-1], 1) for name, of in times.items()}, flush=True)
    ratios = {
        name: [mine / lab for mine, lab in zip(of, times["lab"], strict=True)] for name, of in times.items()
    }
    return {
        "rounds": rounds,
        "ms": {name: statistics.median(of) for name, of in times.items()},
        "ratio_to_lab": {name: [min(of), statistics.median(of), max(of)] for name, of in ratios.items()},
    }


def of_sweep(folder: Path, overrides: list[str], *, steps: int) -> dict[str, Any]:
    """Wall and CPU seconds of 12 runs, the data prepared beforehand."""
    tokens = 1024 * steps
    common = ["size=nano", f"budget.amount={tokens}", *SHORT, *overrides]
    env = os.environ | {
        "LAB_RESULTS": str(folder),
        "LAB_CACHE": str(folder / "cache"),
        "WANDB_MODE": "offline",
    }
    prepared(compose([Override(text) for text in common]), cache=folder / "cache", progress=None)
    grid = ["norm=rmsnorm,layernorm", "seed=0,1,2,3,4,5"]
    lab = _timed([[sys.executable, "-m", "lab", "train", "-m", *grid, *common]], env, at_a_time=1)
    by_hand = [[sys.executable, "-m", "tests.bench.by_hand", *run.split(), *common] for run in RUNS]
    return {
        "runs": len(RUNS),
        "steps": steps,
        "lab": lab,
        "a process a run": _timed(by_hand, env, at_a_time=2),
    }


def _timed(commands: list[list[str]], env: dict[str, str], *, at_a_time: int) -> dict[str, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with ThreadPoolExecutor(at_a_time) as pool:
        for done in pool.map(lambda c: subprocess.run(c, env=env, cwd=ROOT, capture_output=True), commands):
            if done.returncode:
                raise SystemExit(done.stderr.decode()[-2000:])
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print({"wall": round(wall, 1), "cpu": round(cpu, 1)}, flush=True)
    return {"wall_s": wall, "cpu_s": cpu}


def _lab(run: RunConfig, shards: Shards) -> Callable[[int], None]:
    """The step as the training loop takes it, with monitoring and every diagnostics interval."""
    model = Transformer(run)
    initialize(model, init=run.init, seed=0)
    monitor, at = StabilityMonitor(run, {}), itertools.count()
    trainer = Trainer(run, shards, model, optimizer_of(run, model), device="cpu")

    def steps(count: int) -> None:
        for _ in range(count):
            monitor.observe(trainer.step(next(at) % run.steps + 1).values)

    return steps


def _own(run: RunConfig) -> tuple[nn.Module, Logits]:
    model = Transformer(run)
    initialize(model, init=run.init, seed=0)
    return model, lambda tokens: model(tokens).logits


def _transformers(run: RunConfig) -> tuple[nn.Module, Logits]:
    from transformers import LlamaConfig, LlamaForCausalLM

    s = run.shape
    config = LlamaConfig(
        vocab_size=run.shape.vocab_size,
        hidden_size=s.d_model,
        intermediate_size=s.d_ff,
        num_hidden_layers=s.num_layers,
        num_attention_heads=s.num_heads,
        head_dim=s.head_dim,
        max_position_embeddings=s.context_length,
        tie_word_embeddings=True,
        use_cache=False,
    )
    model = LlamaForCausalLM._from_config(config, attn_implementation="sdpa")
    return model, lambda tokens: model(tokens).logits


def _litgpt(run: RunConfig) -> tuple[nn.Module, Logits]:
    from litgpt import GPT, Config

    s = run.shape
    config = Config(
        n_embd=s.d_model,
        n_layer=s.num_layers,
        n_head=s.num_heads,
        head_size=s.head_dim,
        intermediate_size=s.d_ff,
        mlp_class_name="LLaMAMLP",
        norm_class_name="RMSNorm",
        bias=False,
        rotary_percentage=1.0,
        parallel_residual=False,
        padded_vocab_size=run.shape.vocab_size,
        vocab_size=run.shape.vocab_size,
        block_size=s.context_length,
    )
    model = GPT(config)
    return model, model


def _x_transformers(run: RunConfig) -> tuple[nn.Module, Logits]:
    from x_transformers import Decoder, TransformerWrapper

    s = run.shape
    layers = Decoder(
        dim=s.d_model,
        depth=s.num_layers,
        heads=s.num_heads,
        attn_dim_head=s.head_dim,
        attn_flash=True,
        rotary_pos_emb=True,
        use_rmsnorm=True,
        ff_glu=True,
        ff_swish=True,
        ff_no_bias=True,
        ff_mult=s.d_ff / s.d_model,
    )
    model = TransformerWrapper(
        num_tokens=run.shape.vocab_size,
        max_seq_len=s.context_length,
        use_abs_pos_emb=False,
        tie_embedding=True,
        attn_layers=layers,
    )
    return model, model


PEERS: dict[str, tuple[str, Callable[[RunConfig], tuple[nn.Module, Callable[[Tensor], Tensor]]]]] = {
    "transformers Llama": ("transformers", _transformers),
    "litgpt": ("litgpt", _litgpt),
    "x-transformers": ("x_transformers", _x_transformers),
}

if __name__ == "__main__":
    main()
