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

SLOW = frozenset(  # files of tests that train, kill or export for seconds: all but `make test-fast` runs them
    """
    bench/test_gpu_check checkpoint/test_counterparts checkpoint/test_export_folder
    checkpoint/test_learning checkpoint/test_texts checkpoint/test_transformers commands/test_cli
    commands/test_noise_command config/test_compose data/test_ngram data/test_prepare data/test_readers
    lecture/test_exact lecture/test_ledger lecture/test_worklist model/test_attention model/test_dropout
    plan/test_ablations plan/test_plan reliability/test_sweeps report/test_report report/test_site
    report/test_spike_report store/test_formats stories/test_stories sweep/test_parcel sweep/test_search
    sweep/test_tune track/test_boards track/test_mirror track/test_online track/test_tracker
    train/test_golden train/test_leak train/test_lengths train/test_train verdict/test_simulation
    """.split()
)


def pytest_collection_modifyitems(items):
    for item in items:
        if str(item.path.relative_to(ROOT / "tests").with_suffix("")) in SLOW:
            item.add_marker(pytest.mark.slow)


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
