"""What does this CUDA machine give? Parity, precision, compilation, speed, memory and resumption, in 8
minutes or less.

    python -m tests.bench.gpu_check --prepare DIR    where all of the lab is: runs and token shards to carry
    python -m tests.bench.gpu_check DIR              where this repository, torch 2.11 or newer and numpy are
    python -m tests.bench.gpu_check                  both, through .cache/gpu-check

Writes results/bench/gpu-<device>.json. Each part is a process of its own with its own time limit; one that
fails is reported, and the others go on. Without CUDA it says so, writes nothing and exits 1.
"""

import argparse
import dataclasses
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from lab.config.schema import Precision, RunConfig
from lab.config.strict import plain
from lab.data.shards import Shards
from lab.model.initializer import initialize
from lab.model.transformer import Transformer
from lab.store.files import dumps, write_atomic
from lab.store.identity import NUMERICS, run_id
from lab.store.job import Job
from lab.store.log_line import STEP
from lab.store.provenance import provenance
from lab.store.run_store import RunStore
from lab.sweep import parcel
from lab.train.optimizer import optimizer_of
from lab.train.trainer import Trainer
from lab.train.worker import work

ROOT = Path(__file__).resolve().parents[2]
STORIES = 6000
FP32, BF16 = Precision("float32", compile=False), Precision("bfloat16", compile=False)
LIKE_THE_CPU = 1e-4  # relative difference of a loss, CPU against GPU in fp32
PATIENCE_SECONDS = 120  # for a worker that shares its machine


def stepper(run: RunConfig, shards: Shards, device: str) -> Trainer:
    """A fresh model with all that the training loop's step needs."""
    model = Transformer(run)
    initialize(model, init=run.init, seed=run.seed)
    model = model.to(device)
    optimizer = optimizer_of(run, model)
    return Trainer(run, shards, model, optimizer, device=device)


def timed_losses(
    run: RunConfig, shards: Shards, *, device: str, steps: int, first: int = 1
) -> tuple[list[float], list[float]]:
    """Loss and seconds of some steps; a step ends when its loss is known, so nothing is left on the
    device.
    """
    stepping, losses, seconds = stepper(run, shards, device), [], []
    for step in range(first, first + steps):
        began = time.perf_counter()
        values = stepping.step(step).values
        seconds.append(time.perf_counter() - began)
        losses.append(values["train/loss"])
    return losses, seconds


def largest_difference(a: list[float], b: list[float]) -> float:
    return max(abs(x - y) / abs(y) for x, y in zip(a, b, strict=True))


def speed(run: RunConfig, seconds: list[float], *, skip: int) -> float:
    """Tokens a second by the median step after `skip` steps."""
    return run.rows * run.shape.context_length / statistics.median(seconds[skip:])


def parity(jobs: dict[str, Job], *, device: str, steps: int = 20) -> dict[str, Any]:
    """The same first losses on the CPU and on the device, in fp32 without TF32."""
    torch.set_float32_matmul_precision("highest")
    run, shards = opened(jobs["nano"], precision=FP32)
    here, _ = timed_losses(run, shards, device="cpu", steps=steps)
    there, _ = timed_losses(run, shards, device=device, steps=steps)
    difference = largest_difference(there, here)
    return {
        "size": "nano",
        "steps": steps,
        "first_loss": [here[0], there[0]],
        "last_loss": [here[-1], there[-1]],
        "largest_relative_difference": difference,
        "limit": LIKE_THE_CPU,
        "passed": difference <= LIKE_THE_CPU,
    }


def precision(jobs: dict[str, Job], *, device: str, steps: int = 200, last: int = 20) -> dict[str, Any]:
    """What bf16 costs in loss, by the mean of the last steps, against fp32."""
    figures: dict[str, Any] = {"size": "nano", "steps": steps}
    for name, chosen in (("fp32", FP32), ("bf16", BF16)):
        run, shards = opened(jobs["nano"], precision=chosen)
        losses, seconds = timed_losses(run, shards, device=device, steps=steps)
        figures |= {
            f"{name}_loss": statistics.fmean(losses[-last:]),
            f"{name}_tokens_per_second": speed(run, seconds, skip=steps // 2),
        }
    return figures | {"loss_difference": figures["bf16_loss"] - figures["fp32_loss"]}


def compiled(jobs: dict[str, Job], *, device: str, steps: int = 40) -> dict[str, Any]:
    """torch.compile against eager: losses, tokens a second, and what compiling takes, of steps without
    diagnostics.
    """
    figures: dict[str, Any] = {"size": "small", "steps": steps}
    losses = {}
    for name, compile_ in (("eager", False), ("compiled", True)):
        chosen = dataclasses.replace(BF16, compile=compile_)
        run, shards = opened(jobs["small"], precision=chosen)
        _start_memory(device)
        run = dataclasses.replace(run, monitor=dataclasses.replace(run.monitor, diagnostics_every=10**6))
        losses[name], seconds = timed_losses(run, shards, device=device, steps=steps, first=2)
        usual = statistics.median(seconds[steps // 2 :])
        figures |= {
            f"{name}_tokens_per_second": speed(run, seconds, skip=steps // 2),
            f"{name}_start_seconds": sum(seconds) - usual * steps,
            f"{name}_peak_bytes": _peak_memory(device),
        }
    difference = largest_difference(losses["compiled"], losses["eager"])
    return figures | {"largest_relative_difference": difference}


def throughput(
    jobs: dict[str, Job],
    *,
    device: str,
    sizes: tuple[str, ...] = ("small", "base"),
    steps: int = 60,
    matmul: int = 8192,
) -> dict[str, Any]:
    """Tokens a second in bf16, and the share of a measured matrix product's speed that the model's FLOPs
    reach.
    """
    peak = matmul_speed(device, size=matmul)
    figures: dict[str, Any] = {"matmul": f"bf16 {matmul}^3", "matmul_flops_per_second": peak}
    for size in sizes:
        run, shards = opened(jobs[size], precision=BF16)
        _start_memory(device)
        _, seconds = timed_losses(run, shards, device=device, steps=steps)
        rate, counts = speed(run, seconds, skip=steps // 3), jobs[size].manifest.counts
        figures[size] = {
            "parameters": counts.parameters,
            "tokens_per_second": rate,
            "flops_per_token": counts.flops_per_token,
            "utilisation": rate * counts.flops_per_token / peak,
            "peak_bytes": _peak_memory(device),
        }
    return figures


def matmul_speed(device: str, *, size: int, rounds: int = 5, products: int = 10) -> float:
    """FLOP/s of a square bf16 matrix product, the best of some rounds."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    best = float("inf")
    for _ in range(rounds + 1):  # the first one warms up
        _wait(device)
        began = time.perf_counter()
        for _ in range(products):
            a @ b
        _wait(device)
        best = min(best, (time.perf_counter() - began) / products)
    return 2 * size**3 / best


def resume(jobs: dict[str, Job], *, device: str, steps: int = 600, seconds: float = 1.0) -> dict[str, Any]:
    """A worker killed after a checkpoint and started again, against a run that nobody disturbed."""
    run = dataclasses.replace(jobs["nano"].config, precision=FP32, steps=steps)
    job = dataclasses.replace(
        jobs["nano"], config=run, run_id=run_id(run), device=device, checkpoint_seconds=seconds
    )
    with tempfile.TemporaryDirectory() as name:
        whole, killed = (RunStore(Path(name) / folder / "runs") for folder in ("whole", "killed"))
        work(dataclasses.replace(job, store=str(whole.root)))
        killed.root.mkdir(parents=True)
        content = parcel.JobsFile(NUMERICS, 1, (dataclasses.replace(job, store="runs"),))
        write_atomic(killed.root.parent / "jobs.json", dumps(plain(content)))
        process = _worker(killed.root.parent)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (saved := killed.checkpoints(job.run_id)) and time.monotonic() < deadline:
            time.sleep(0.02)
        _kill(process)
        while (lost := killed.state(job.run_id)) == "running" and time.monotonic() < deadline:
            time.sleep(0.02)  # the system takes the run's process down a moment later
        process = _worker(killed.root.parent)
        try:
            process.wait(timeout=PATIENCE_SECONDS)
        finally:
            _kill(process)
        theirs, ours = (
            [line.values["train/loss"] for line in store.metrics(job.run_id) if line.kind == STEP]
            for store in (whole, killed)
        )
        state = killed.state(job.run_id)
    return {
        "size": "nano",
        "steps": steps,
        "killed_after_checkpoint": saved[-1] if saved else None,
        "state_when_killed": lost,
        "state": state,
        "steps_logged": len(ours),
        "equal_to_the_bit": ours == theirs,
        "largest_relative_difference": largest_difference(ours, theirs) if len(ours) == len(theirs) else None,
    }


def _worker(folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "lab.sweep.away", str(folder)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)


def _kill(process: subprocess.Popen) -> None:
    """End a process with all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _start_memory(device: str) -> None:
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _peak_memory(device: str) -> int | None:
    return torch.cuda.max_memory_allocated() if device == "cuda" else None


def opened(job: Job, *, precision: Precision) -> tuple[RunConfig, Shards]:
    return dataclasses.replace(job.config, precision=precision), Shards.open(Path(job.shards))


PARTS: dict[
    str, tuple[Callable[..., dict[str, Any]], float]
] = {  # with their limits in seconds, 410 together
    "parity": (parity, 45.0),
    "precision": (precision, 60.0),
    "throughput": (throughput, 90.0),
    "resume": (resume, 100.0),
    "compiled": (compiled, 115.0),
}


def measure(folder: Path, part: str, *, limit: float) -> dict[str, Any]:
    """One part in a process of its own: its figures, or why there are none."""
    command = [sys.executable, "-m", "tests.bench.gpu_check", str(folder), "--part", part]
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=limit)
            done = process.returncode == 0
            last = (output if done else errors).strip().rpartition("\n")[2]
            figures = (
                {"state": "measured", **json.loads(last)} if done else {"state": "failed", "reason": last}
            )
        except subprocess.TimeoutExpired:
            figures = {"state": "out of time", "limit": limit}
            _kill(process)
    return figures | {"seconds": round(time.monotonic() - began, 1)}


def jobs_by_size(folder: Path) -> dict[str, Job]:
    return {job.manifest.tags[0]: job for job in parcel.jobs_of(folder)[0].values()}


def prepare(folder: Path) -> None:
    """The folder to check with: one job of each size, planned for CUDA, on few stories that small and base
    read often.
    """
    from lab.plan.single import single_runs

    if folder.exists() and any(folder.iterdir()) and not (folder / "jobs.json").exists():
        raise SystemExit(f"{folder}: holds other things. Give a new folder.")
    common = [f"data.stories={STORIES}", "data.validation_stories=100", "evaluation.documents=16"]
    points = [
        [f"size={size}", "precision=fp32", "engine.device=cuda", *common]
        for size in ("nano", "small", "base")
    ]
    work = single_runs(points, results=ROOT / "results", cache=ROOT / ".cache", elsewhere=True)
    parcel.pack_jobs(work, folder, RunStore(ROOT / "results/runs"))


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", default=ROOT / ".cache/gpu-check")
    parser.add_argument("--prepare", action="store_true", help="write DIR and measure nothing")
    parser.add_argument("--part", choices=PARTS, help="measure one part and print it as JSON")
    options = parser.parse_args(words)
    if options.prepare:
        prepare(options.folder)
        print(f"written to {options.folder}")
        return 0
    if not torch.cuda.is_available():
        print("gpu-check: no CUDA device here, so there is nothing to measure.", file=sys.stderr)
        return 1
    if options.part:
        print(json.dumps(PARTS[options.part][0](jobs_by_size(options.folder), device="cuda")))
        return 0
    if not (options.folder / "jobs.json").exists():
        prepare(options.folder)
    return check(options.folder.resolve(), ROOT / "results/bench")


def check(folder: Path, results: Path) -> int:
    """Every part, one after another; the report is written anew after each, so what was measured is never
    lost.
    """
    about = {"date": datetime.now(UTC).isoformat(timespec="seconds"), **provenance("cuda")}
    report: dict[str, Any] = {**about, "parts": {}}
    path = results / f"gpu-{re.sub('[^a-z0-9]+', '-', about['device'].lower()).strip('-')}.json"
    results.mkdir(parents=True, exist_ok=True)
    for part, (_, limit) in PARTS.items():
        figures = measure(folder, part, limit=limit)
        report["parts"][part] = figures
        write_atomic(path, dumps(report, indent=1) + "\n")
        print(f"{part}: {dumps(figures)}", flush=True)
    print(f"written to {path}")
    return 0 if all(figures["state"] == "measured" for figures in report["parts"].values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
