"""The rooms of the house and who may enter which: imports go one way, and workers and reports stay light."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lab

LAB = Path(__file__).parents[1] / "lab"
TRAINING = (
    "config", "shape", "rules", "compose", "data", "model", "budget", "provenance", "spikes", "curves", "runs", "branch", "train", "trained", "texts", "export",
    "ablation", "matching", "outcomes", "exact", "planned_arm", "plan", "parcel", "sweep", "staged", "space", "tune", "trials", "progress", "worker", "listing", "skills", "completion",
    "arguments", "places", "commands", "cli",
)  # fmt: skip
MIRRORING = ("config", "runs", "board", "mirror", "tracker", "commands", "cli")
READING = (
    "outcomes", "spikes", "stats", "metric", "lr_range", "evidence", "comparison", "predicates", "claim_schema", "noise", "judgement", "search", "confounds", "claims", "simulation", "ledger",
    "report", "publish", "worklist", "commands", "cli",
)  # fmt: skip
HEAVY = {
    "torch",
    "hydra",
    "omegaconf",
    "tokenizers",
    "datasets",
    "wandb",
    "trackio",
    "tensorboard",
    "scipy",
    "optuna",
    "matplotlib",
    "jinja2",
    "pandas",
}


def imported(path: Path) -> set[str]:
    """Rooms of `lab` that a file imports anywhere in it."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        modules = []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [f"lab.{a.name}" for a in node.names] if node.module == "lab" else [node.module]
        elif isinstance(node, ast.Import):
            modules = [a.name for a in node.names]
        rooms |= {m.split(".")[1] for m in modules if m.startswith("lab.")}
    return rooms


@functools.cache
def rooms() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in LAB.rglob("*.py"):
        room = path.relative_to(LAB).parts[0].removesuffix(".py")
        found.setdefault(room, set()).update(imported(path) - {room})
    return found


@pytest.mark.parametrize("order", [TRAINING, MIRRORING, READING], ids=["training", "mirroring", "reading"])
def test_imports_go_one_way(order):
    for room, entered in rooms().items():
        if room in order:
            later = {r for r in entered if r in order and order.index(r) > order.index(room)}
            assert not later, f"lab/{room} imports {later}"


def test_every_room_has_its_place():
    inside = rooms().keys() - {"__init__", "__main__"}
    assert inside == {*TRAINING, *MIRRORING, *READING}
    assert inside <= set(re.findall(r"\w+", lab.__doc__))


def test_what_reads_results_knows_runs_only():
    for room in READING[:-2]:
        assert rooms()[room] <= {*READING, "runs", "config"}, room


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("lab.train.worker", {"torch"}),
        ("lab.worker", {"torch"}),
        ("lab.report", set()),
        ("lab.claims", set()),
        ("lab.cli", set()),
        ("lab.config", set()),
    ],
)
def test_heavy_packages_stay_out(module, allowed):
    code = f"import sys, {module}; print(' '.join(sys.modules))"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    assert loaded & HEAVY <= allowed
