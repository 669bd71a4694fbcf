"""The rooms of the house and who may enter which: imports go one way, and workers and reports stay light."""

import ast
import functools
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

LAB = Path(__file__).parents[1] / "lab"
TRAINING = (
    "config",
    "shape",
    "rules",
    "compose",
    "data",
    "model",
    "budget",
    "provenance",
    "spikes",
    "curves",
    "runs",
    "branch",
    "train",
    "trained",
    "texts",
    "export",
    "verdict",
    "ablation",
    "matching",
    "exact",
    "planned_arm",
    "plan",
    "parcel",
    "sweep",
    "search",
    "staged",
    "tune",
    "progress",
    "worker",
    "skills",
    "commands",
    "cli",
)
MIRRORING = ("config", "runs", "board", "mirror", "tracker", "commands", "cli")
READING = (
    "config",
    "spikes",
    "curves",
    "runs",
    "verdict",
    "search",
    "report",
    "publish",
    "worklist",
    "commands",
    "cli",
)
WITHIN = {
    "verdict": (
        "outcomes",
        "stats",
        "metric",
        "lr_range",
        "evidence",
        "comparison",
        "predicates",
        "claim_schema",
        "noise",
        "judgement",
        "confounds",
        "claims",
        "simulation",
        "ledger",
    ),
    "tune": ("space", "study", "trials"),
}
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


def imported(path: Path) -> set[tuple[str, ...]]:
    """What a file imports from below `lab` anywhere in it: (room,) or (room, module)."""
    modules = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
    return {tuple(m.split(".")[1:3]) for m in modules if m.startswith("lab.")}


@functools.cache
def rooms() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in LAB.rglob("*.py"):
        room = path.relative_to(LAB).parts[0].removesuffix(".py")
        found.setdefault(room, set()).update({entered[0] for entered in imported(path)} - {room})
    return found


def modules(room: str) -> dict[str, set[str]]:
    """What each module of a room imports of the others."""
    return {
        path.stem: {entered[1] for entered in imported(path) if entered[0] == room and len(entered) > 1}
        for path in (LAB / room).glob("*.py")
        if path.stem != "__init__"
    }


def check_one_way(imports: dict[str, set[str]], order: tuple[str, ...]) -> None:
    for name, entered in imports.items():
        if name in order:
            later = {r for r in entered if r in order and order.index(r) > order.index(name)}
            assert not later, f"{name} imports {later}"


@pytest.mark.parametrize("order", [TRAINING, MIRRORING, READING], ids=["training", "mirroring", "reading"])
def test_imports_go_one_way(order):
    check_one_way(rooms(), order)


@pytest.mark.parametrize("room", WITHIN)
def test_imports_inside_a_room_go_one_way(room):
    check_one_way(modules(room), WITHIN[room])
    assert modules(room).keys() == set(WITHIN[room])


def test_every_room_has_its_place():
    inside = rooms().keys() - {"__init__", "__main__"}
    assert inside == {*TRAINING, *MIRRORING, *READING}


@pytest.mark.parametrize("room", ["lab", "lab.commands", *(f"lab.{room}" for room in WITHIN)])
def test_maps_name_every_module(room):
    package = importlib.import_module(room)
    inside = {
        path.stem for path in Path(package.__file__).parent.glob("[a-z]*") if path.suffix in ("", ".py")
    }
    assert inside <= set(re.findall(r"\w+", package.__doc__))


def test_what_reads_results_knows_runs_only():
    for room in READING[:-2]:
        assert rooms()[room] <= {*READING, "runs", "config"}, room


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("lab.train.worker", {"torch"}),
        ("lab.sweep.away", {"torch"}),
        ("lab.report", set()),
        ("lab.verdict.claims", set()),
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
