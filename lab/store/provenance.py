"""What do a run's numbers depend on beside its configuration? Code, versions and hardware, as the manifest
states them.
"""

import dataclasses
import hashlib
import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from lab.store.run_record import Provenance


def provenance(device: str, *, threads: int) -> Provenance:
    """That of a run which starts now on a device, cpu or cuda."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return dataclasses.replace(here(device), threads=threads, started=now)


@cache
def here(device: str) -> Provenance:
    """The code, versions and hardware of this process, for no run in particular."""
    import torch

    commit, clean = checkout()
    return Provenance(
        commit=commit,
        clean=clean,
        source_hash=source_hash(),
        python=platform.python_version(),
        torch=torch.__version__.partition("+")[0],
        device_kind=device,
        device=torch.cuda.get_device_name() if device == "cuda" else _cpu(),
        cores=os.cpu_count(),
        threads=0,
        started="",
    )


def checkout() -> tuple[str | None, bool]:
    """The commit of this code, None outside a git checkout, and whether code and defaults are as it has
    them.
    """
    root = Path(__file__).resolve().parents[2]
    return _git(root, "rev-parse", "HEAD"), _git(root, "status", "--porcelain", "--", "lab", "conf") == ""


@cache
def source_hash() -> str:
    """SHA-256 of the code that a run's numbers come from."""
    folder = Path(__file__).parents[1]
    files = [
        folder / "config/schema.py",
        folder / "config/strict.py",
        folder / "store/spikes.py",
        *sorted((folder / "model").glob("*.py")),
        *sorted((folder / "train").glob("*.py")),
        folder / "data/evaluation.py",
        folder / "data/shards.py",
    ]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _git(root: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )
