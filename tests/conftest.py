import os
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

os.environ.setdefault("OMP_NUM_THREADS", "1")
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    # The tests start a hundred processes, and each would compile torch anew, half of what its start costs.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(ROOT / ".cache/bytecode")


@pytest.fixture(scope="session")
def shards(tmp_path_factory) -> Path:
    """A small stories corpus under the byte tokenizer."""
    from lab.config.schema import Vocab
    from lab.data.prepare import prepare
    from tests.tiny_run import DATA

    return prepare(DATA, Vocab("bytes", 257), cache=tmp_path_factory.mktemp("cache"), progress=None)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """`lab(arguments)` in this process on folders of the module's own; returns the exit code."""
    from lab import cli
    from lab.commands import places

    folder = tmp_path_factory.mktemp("lab")
    patch = pytest.MonkeyPatch()
    patch.setattr(places, "RESULTS", folder / "results")
    patch.setattr(places, "CACHE", folder / "cache")
    yield lambda *arguments: cli.main([str(argument) for argument in arguments])
    patch.undo()


@pytest.fixture
def make_climbing(tmp_path, monkeypatch):
    """`make_climbing(**options)`: the plan of an ablation over horizons, without prepared data."""
    from lab.plan import ablation as questions
    from lab.plan import planned_arm, planning
    from lab.plan.budget import TrainingText
    from tests.sweep.climbing_plan import TEXT

    folder = tmp_path / "ablations"
    folder.mkdir()
    (folder / "climb.yaml").write_text(TEXT)
    monkeypatch.setattr(questions, "ABLATIONS", folder)
    monkeypatch.setattr(questions, "ROOT", tmp_path)
    corpus = TrainingText("d", 4.0, 10**9, tokenizer_hash="t")
    monkeypatch.setattr(planned_arm, "prepared", lambda config, **_: (tmp_path, corpus))
    monkeypatch.setattr(planning, "_reference_lines", lambda baseline, reached: ())
    return lambda *overrides, **options: planning.make(
        "climb", ["size=nano", *overrides], results=tmp_path, cache=tmp_path, **options
    )
