"""Golden losses of twelve steps, one for each variant: they change only when the mathematics of training changes.

If a change means to alter numbers, raise NUMERICS in lab/runs.py and write the table anew with
`LAB_WRITE_GOLDEN=1 python -m pytest tests/test_golden.py`; if it does not, it has a bug.
"""

import json
import os
from pathlib import Path

import pytest

from lab.runs import NUMERICS, RunStore
from tests.tiny_model import PAIRS
from tests.tiny_run import tiny_run, trained

TABLE = Path(__file__).with_name("golden.json")


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_losses_stay(pair, shards, tmp_path):
    axis, name = pair
    trained(tiny_run(**{axis: name}), run_id="r", store=tmp_path, shards=shards)
    loss = RunStore(tmp_path).read("r", "summary.json")["train/loss"]
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    if os.environ.get("LAB_WRITE_GOLDEN"):
        TABLE.write_text(
            json.dumps(table | {"numerics": NUMERICS, f"{axis}-{name}": loss}, indent=1, sort_keys=True)
            + "\n"
        )
        return
    assert table["numerics"] == NUMERICS, (
        "NUMERICS moved: write the golden table anew (see this file's docstring)"
    )
    # CPUs differ in the order of their sums; a change of the mathematics is far larger.
    assert loss == pytest.approx(table[f"{axis}-{name}"], rel=2e-3), (
        "numbers changed: see this file's docstring"
    )
