"""Set-up takes torch's CPU build where there is no NVIDIA GPU, and goes on without its index."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.paths import ROOT

CPU = "--index-url https://download.pytorch.org/whl/cpu"


@pytest.fixture
def set_up(tmp_path):
    """`set_up(*settings, gpu, reached)`: the calls of pip that `make setup` makes, and what it prints."""

    def program(path: Path, lines: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)

    def run(*settings: str, gpu: bool = False, reached: bool = True) -> tuple[list[str], str]:
        calls, venv, path = tmp_path / "calls", tmp_path / "venv", tmp_path / "path"
        outcome = "" if reached else 'case "$*" in *--index-url*) exit 1;; esac'
        program(venv / "bin/python", f'echo "$*" >> {calls}\n{outcome}')
        if gpu:
            program(path / "nvidia-smi", "")
        environment = {"PATH": f"{path}:{os.environ['PATH']}"}
        words = ["make", "setup", f"VENV={venv}", *settings]
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return calls.read_text().splitlines(), done.stdout

    return run


def test_without_a_gpu_the_cpu_build_comes_first_and_alone(set_up):
    calls, _ = set_up()
    assert CPU in calls[0] and "--no-deps" in calls[0] and calls[0].endswith(" torch")
    assert [CPU in call for call in calls] == [True, False, False]
    assert calls[1].endswith("constraints.txt torch") and calls[2].endswith("--editable .")


def test_where_the_index_cannot_be_reached_torch_comes_from_pips_own(set_up):
    calls, printed = set_up(reached=False)
    assert [CPU in call for call in calls] == [True, False, False]
    assert (
        "nothing from https://download.pytorch.org/whl/cpu; taking torch from the index that pip has"
        in printed
    )
    assert "--retries 0" in calls[0] and "--timeout" in calls[0]


def test_with_a_gpu_or_an_empty_index_only_pips_own_is_asked(set_up):
    assert "--index-url" not in " ".join(set_up(gpu=True)[0])


def test_an_empty_index_leaves_the_choice_to_pip_and_another_takes_its_place(set_up):
    assert "--index-url" not in " ".join(set_up("TORCH_INDEX=")[0])


def test_another_index_takes_the_place(set_up):
    assert "--index-url https://example.org/torch" in set_up("TORCH_INDEX=https://example.org/torch")[0][0]
