"""The rooms of the house and who may enter which: imports go one way, and workers and reports stay light."""

import ast
import functools
import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.paths import ROOT

LAB = ROOT / "lab"
# What stands nowhere here is a never: `verdict` knows no plan being made, only commands know the lecture.
MAY_ENTER: dict[str, set[str]] = {
    "config": set(),
    "data": {"config"},
    "store": {"config"},
    "model": {"config"},
    "train": {"config", "data", "model", "store"},
    "plan": {"config", "data", "model", "store"},
    "verdict": {"config", "store"},
    "sweep": {"config", "data", "store", "plan", "train", "verdict"},
    "track": {"config", "store"},
    "report": {"config", "store", "verdict"},
    "checkpoint": {"config", "data", "model", "store", "train", "report"},
    "lecture": {"config", "data", "model", "store", "train", "plan", "verdict", "report"},
    "commands": {
        "config",
        "data",
        "store",
        "plan",
        "verdict",
        "sweep",
        "track",
        "report",
        "checkpoint",
        "lecture",
    },
    "cli": {"config", "store", "commands"},
    "__main__": {"cli"},
    "__init__": set(),
}
WITHOUT = {"verdict": {"torch", "hydra"}, "report": {"torch", "hydra"}, "store": {"hydra", "numpy", "scipy"}}
ENGINES = {"local", "away", "parcel"}  # those modules of `sweep` that know how a run is trained
LIGHT = {
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
    """What a file imports from below `lab`, anywhere in it: ("room", "module", ...)."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return {tuple(name.split(".")[1:]) for name in found if name.startswith("lab.")}


@functools.cache
def files() -> dict[Path, set[tuple[str, ...]]]:
    return {path.relative_to(LAB): imported(path) for path in sorted(LAB.rglob("*.py"))}


def room_of(path: Path) -> str:
    return path.parts[0].removesuffix(".py")


@pytest.mark.parametrize("room", MAY_ENTER)
def test_a_room_enters_only_what_it_may(room):
    entered = {
        (str(path), modules[0])
        for path, found in files().items()
        if room_of(path) == room
        for modules in found
        if modules[0] != room
    }
    assert {(path, other) for path, other in entered if other not in MAY_ENTER[room]} == set()


def test_every_room_has_its_place():
    assert {room_of(path) for path in files()} == MAY_ENTER.keys()
    assert len(MAY_ENTER) <= 16


def test_no_circle_of_rooms():
    left = {room: set(others) for room, others in MAY_ENTER.items()}
    while left:
        free = [room for room, others in left.items() if not others & left.keys()]
        assert free, f"a circle among {sorted(left)}"
        for room in free:
            del left[room]


def test_training_is_entered_by_engines_alone():
    entering = {
        path.stem
        for path, found in files().items()
        if room_of(path) == "sweep" and ("train" in {m[0] for m in found})
    }
    assert entering <= ENGINES


def test_no_circle_of_modules():
    """Inside a room too, what is imported when a module is loaded makes no circle."""
    graph = {}
    for path in files():
        name = ".".join(path.with_suffix("").parts)
        top = ast.parse((LAB / path).read_text()).body
        found = {n.module.removeprefix("lab.") for n in top if isinstance(n, ast.ImportFrom) and n.module}
        found |= {
            f"{n.module}.{alias.name}".removeprefix("lab.")
            for n in top
            if isinstance(n, ast.ImportFrom) and n.module
            for alias in n.names
        }
        graph[name] = found
    left = {name: others & graph.keys() for name, others in graph.items()}
    while left:
        free = [name for name, others in left.items() if not others & left.keys()]
        assert free, f"a circle among {sorted(left)}"
        for name in free:
            del left[name]


def test_no_stem_twice():
    stems = Counter(path.stem for path in files() if path.stem != "__init__")
    assert [stem for stem, count in stems.items() if count > 1] == []


def test_no_public_class_name_twice():
    names = Counter(
        node.name
        for path in files()
        for node in ast.parse((LAB / path).read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("room", ["lab", *sorted(f"lab.{r}" for r in MAY_ENTER if (LAB / r).is_dir())])
def test_maps_name_every_module(room):
    package = importlib.import_module(room)
    inside = {
        path.stem for path in Path(package.__file__).parent.glob("[a-z]*") if path.suffix in ("", ".py")
    }
    listed = {name.replace("-", "_") for name in getattr(package, "COMMANDS", ())}
    assert inside <= set(re.findall(r"\w+", package.__doc__)) | listed


@pytest.mark.parametrize("room", WITHOUT)
def test_rooms_without(room):
    named = {
        (str(path), top)
        for path in files()
        if room_of(path) == room
        for node in ast.walk(ast.parse((LAB / path).read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for top in [getattr(node, "module", None) or node.names[0].name]
        if top.partition(".")[0] in WITHOUT[room] and str(path) != "store/provenance.py"
    }
    assert named == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("lab.train.worker", {"torch"}),
        ("lab.sweep.away", {"torch"}),
        ("lab.report", set()),
        ("lab.verdict.verdicts", set()),
        ("lab.cli", set()),
        ("lab.config.schema", set()),
    ],
)
def test_heavy_packages_stay_out(module, allowed):
    code = f"import sys, {module}; print(' '.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert set(loaded) & LIGHT <= allowed
