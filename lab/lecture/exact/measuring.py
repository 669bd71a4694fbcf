"""What do fresh models and the clock say? Runs the claims of `initial.py` and `cost.py`.

    lab measure [CLAIM ...]     writes results/measured/<claim>-<device kind>.json

A record names machine, versions and commit. Claims on initialisation come out alike anywhere; times belong
to their machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lab.config.strict import ConfigError, closest
from lab.store.files import dumps, write_atomic

KINDS = {"init": "initial", "cost": "cost"}
BUSY = 0.5  # load a core, of other processes, from which times are called unreliable


def claims() -> dict[str, tuple[str, Any]]:
    """Claim id -> (kind, the function that measures it on a device)."""
    from importlib import import_module

    return {
        name: (kind, measure)
        for kind, module in KINDS.items()
        for name, measure in import_module(f"lab.lecture.exact.{module}").CLAIMS.items()
    }


def measure(names: Sequence[str], *, device: str = "cpu") -> Iterator[dict[str, Any]]:
    """A record a claim, of the named ones or of all. Raises ConfigError on an unknown name."""
    import torch

    from lab.store.provenance import provenance

    known = claims()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(
            f"{name}: no such measured claim.{closest(name, known)} Known: {', '.join(known)}."
            for name in unknown
        )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        for name in names or known:
            kind, of = known[name]
            busy, start = os.getloadavg()[0], time.process_time()
            found = of(device)
            if kind == "cost" and device == "cpu" and busy > BUSY * (os.cpu_count() or 1):
                found["confounds"].append(
                    f"Other work ran on the machine (load {busy:.1f} on {os.cpu_count()} cores): CPU time "
                    "and interleaved pairs lessen that, shared caches and memory remain."
                )
            yield {
                "claim": name,
                "kind": kind,
                **found,
                "core_minutes": round((time.process_time() - start) / 60, 2),
                "provenance": provenance(device),
            }
    finally:
        torch.set_num_threads(threads)


def write(record: dict[str, Any], results: Path) -> Path:
    folder = results / "measured"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record['claim']}-{record['provenance']['device_kind']}.json"
    write_atomic(path, dumps(record, indent=1, ensure_ascii=False) + "\n")
    return path
