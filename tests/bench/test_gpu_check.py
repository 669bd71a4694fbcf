"""The GPU check's parts at a tiny size on the CPU, where their answers are known, and what it does without
a GPU.
"""

import json
import math

import pytest
import torch

from lab.store.identity import run_id
from lab.store.run_record import Counts
from lab.store.run_store import RunStore
from tests.bench import gpu_check
from tests.tiny_run import job, tiny_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def jobs(shards, tmp_path_factory):
    run, store = tiny_run(data_fingerprint="f", steps=40), tmp_path_factory.mktemp("store")
    counts = Counts(parameters=10, body_parameters=8, embedding_parameters=2, flops_per_token=1000)
    about = {"tags": ("nano", "stories"), "counts": counts}
    of_run = job(run, run_id=run_id(run), store=store, shards=shards, **about)
    return {"nano": of_run, "small": of_run}


def test_all_limits_together_are_under_eight_minutes():
    # Each part also starts a process, and is cut off at its limit.
    assert sum(limit for _, limit in gpu_check.PARTS.values()) <= 7 * 60


def test_a_device_agrees_with_itself(jobs):
    figures = gpu_check.parity(jobs, device="cpu", steps=3)
    assert figures["largest_relative_difference"] == 0 and figures["passed"]
    assert figures["first_loss"][0] == pytest.approx(math.log(257), rel=0.2)


def test_parity_notices_a_device_that_differs(jobs, monkeypatch):
    real = gpu_check.timed_losses
    answers = iter([1.0, 1.0002])

    def skewed(*arguments, **options):
        losses, seconds = real(*arguments, **options)
        factor = next(answers)
        return [loss * factor for loss in losses], seconds

    monkeypatch.setattr(gpu_check, "timed_losses", skewed)
    figures = gpu_check.parity(jobs, device="cpu", steps=2)
    assert figures["largest_relative_difference"] == pytest.approx(2e-4) and not figures["passed"]


def test_bf16_loses_little_and_something(jobs):
    figures = gpu_check.precision(jobs, device="cpu", steps=8, last=4)
    assert 0 < abs(figures["loss_difference"]) < 0.1
    assert figures["loss_difference"] == figures["bf16_loss"] - figures["fp32_loss"]


def test_utilisation_is_the_models_work_over_that_of_the_matrix_product(jobs, monkeypatch):
    ticks = iter(range(10**6))
    monkeypatch.setattr(gpu_check.time, "perf_counter", lambda: next(ticks))  # every step takes one second
    monkeypatch.setattr(gpu_check, "matmul_speed", lambda device, *, size: 48_000.0)
    figures = gpu_check.throughput(jobs, device="cpu", sizes=("small",), steps=3, matmul=8)
    # 4 rows of 24 tokens a second, at 1,000 FLOPs a token.
    assert figures["small"]["tokens_per_second"] == 96 and figures["small"]["utilisation"] == 2.0


def test_a_matrix_product_counts_two_operations_a_term(monkeypatch):
    ticks = iter(range(10**6))
    monkeypatch.setattr(gpu_check.time, "perf_counter", lambda: next(ticks))
    assert gpu_check.matmul_speed("cpu", size=8, rounds=1, products=2) == 2 * 8**3 / 0.5


def test_a_killed_worker_repeats_the_undisturbed_run(jobs):
    figures = gpu_check.resume(jobs, device="cpu", steps=30, seconds=0.0)
    assert figures["state_when_killed"] == "lost" and figures["killed_after_checkpoint"] < 30
    assert figures["equal_to_the_bit"] and figures["steps_logged"] == 30
    assert figures["largest_relative_difference"] == 0


def test_without_cuda_it_says_so_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(gpu_check, "ROOT", tmp_path)
    assert gpu_check.main([]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "no CUDA device" in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_fails_or_takes_too_long_is_reported_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpu_check.measure(tmp_path, "parity", limit=0.05)["state"] == "out of time"
    failed = gpu_check.measure(tmp_path, "parity", limit=60)
    assert failed["state"] == "failed" and "no CUDA device" in failed["reason"]

    figures = {"parity": {"state": "failed", "reason": "x"}, "resume": {"state": "measured", "steps": 3}}
    monkeypatch.setattr(gpu_check, "PARTS", {part: (None, 1.0) for part in figures})
    monkeypatch.setattr(gpu_check, "measure", lambda folder, part, *, limit: figures[part])
    monkeypatch.setattr(
        gpu_check, "provenance", lambda device: {"device": "NVIDIA H200 (141 GB)", "torch": "2.11.0"}
    )
    assert gpu_check.check(tmp_path, tmp_path / "bench") == 1
    report = json.loads((tmp_path / "bench/gpu-nvidia-h200-141-gb.json").read_text())
    assert report["parts"] == figures and report["torch"] == "2.11.0"


def test_the_folder_to_check_with_has_a_run_of_each_size(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_check, "STORIES", 500)
    monkeypatch.setattr(gpu_check, "ROOT", tmp_path)
    gpu_check.prepare(tmp_path / "out")
    jobs = gpu_check.jobs_by_size(tmp_path / "out")
    assert list(jobs) == ["nano", "small", "base"] and {job.device for job in jobs.values()} == {"cuda"}
    assert [job.config.shape.d_model for job in jobs.values()] == [96, 384, 576]
    assert not (tmp_path / "results").exists()
    assert RunStore(tmp_path / "out/runs").ids() == []
