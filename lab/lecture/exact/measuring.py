"""What do fresh models and the clock say? Runs the claims of `initial.py` and `cost.py`.

    lab measure [CLAIM ...]     writes results/measured/<claim>-<device kind>.json

A record names machine, versions and commit. Claims on initialisation come out alike anywhere; times belong to
their machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from importlib import import_module

from lab.config.strict import ConfigError, closest
from lab.lecture.exact.measured_claim import Machine, MeasuredClaim, Measurement

Measuring = Callable[[str], Measurement]  # of a device, cpu or cuda
KINDS = {"init": "initial", "cost": "cost"}
BUSY = 0.5  # load a core, of other processes, from which times are called unreliable


def claims() -> dict[str, tuple[str, Measuring]]:
    """Claim id -> (kind, the function that measures it on a device)."""
    return {
        name: (kind, measuring)
        for kind, module in KINDS.items()
        for name, measuring in import_module(f"lab.lecture.exact.{module}").CLAIMS.items()
    }


def measure(names: Sequence[str], *, device: str = "cpu") -> Iterator[MeasuredClaim]:
    """A record a claim, of the named ones or of all. Raises ConfigError on an unknown name."""
    import torch

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
            kind, measuring = known[name]
            busy, start = os.getloadavg()[0], time.process_time()
            found = measuring(device)
            if kind == "cost" and device == "cpu" and busy > BUSY * (os.cpu_count() or 1):
                found = replace(found, confounds=(*found.confounds, _busy(busy)))
            yield MeasuredClaim(
                claim=name,
                kind=kind,
                core_minutes=round((time.process_time() - start) / 60, 2),
                provenance=machine(device),
                **vars(found),
            )
    finally:
        torch.set_num_threads(threads)


def machine(device: str) -> Machine:
    """What this process measures with."""
    from lab.store.provenance import here

    known = here(device)
    return Machine(**{field.name: getattr(known, field.name) for field in fields(Machine)})


def _busy(load: float) -> str:
    return (
        f"Other work ran on the machine (load {load:.1f} on {os.cpu_count()} cores): CPU time and "
        "interleaved pairs lessen that, shared caches and memory remain."
    )
