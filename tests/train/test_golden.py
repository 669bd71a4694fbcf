"""Golden numbers of twelve steps, one row for each variant and each part of the recipe: they move only
when mathematics does.

A new row is added by `LAB_WRITE_GOLDEN=1 python -m pytest -n 0 tests/train/test_golden.py`, which leaves all
others as they are. If a change means to alter numbers, raise NUMERICS in lab/store/identity.py first: then
the same command writes the table anew. If it does not mean to, it has a bug.
"""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from lab.config.schema import Schedule
from lab.config.strict import plain
from lab.store.identity import NUMERICS
from lab.store.run_store import RunStore
from tests.tiny_model import CONF, PAIRS
from tests.tiny_run import optimizer_named, tiny_run, trained

pytestmark = pytest.mark.slow

TABLE = Path(__file__).with_name("golden.json")
BASE = tiny_run()


def changed(part: str, **values):
    return {part: dataclasses.replace(getattr(BASE, part), **values)}


# Values strong enough that twelve steps feel them: a part that is dropped moves its row by more than the
# tolerance.
ROWS = {f"{axis}-{name}": {axis: name} for axis, name in PAIRS} | {
    "z_loss": changed("stability", z_loss=0.1),
    "qk_norm": changed("stability", qk_norm=True),
    "qk_norm_joint": changed("stability", qk_norm=True, qk_norm_joint=True),
    "attention_softcap": changed("stability", attention_softcap=1.0),
    "output_softcap": changed("stability", output_softcap=2.0),
    "dropout": changed("regularization", dropout=0.3),
    "weight_decay": changed("regularization", weight_decay=5.0),
    "label_smoothing": changed("regularization", label_smoothing=0.5),
    "adam_eps": {"optimizer": optimizer_named("adamw", eps=1e-2)},
    "adam_beta1": {"optimizer": optimizer_named("adamw", beta1=0.5)},
    "adam_beta2": {"optimizer": optimizer_named("adamw", beta2=0.5)},
    "lr": changed("optimizer", lr=2e-2),
    "no_clipping": changed("optimizer", grad_clip=None),
    "tied": changed("embedding", tied=True),
    "tied_unscaled_head": changed("embedding", tied=True, head_scaled=False)
    | changed("init", embedding_std=0.1),
    "scaled_embedding": changed("embedding", scaled=True),
    "normed_embedding": changed("embedding", normed=True),
    "init": changed("init", embedding_std=0.3),
    "init_std": changed("init", std=0.5),
    "init_cutoff": changed("init", cutoff=0.5),
    "init_uniform": changed("init", uniform=True, cutoff=None),
    "init_depth_scaled": changed("init", depth_scaled=True),
    "accumulation": {"micro_rows": 1},
    "warmup": changed("schedule", warmup_fraction=0.5),
    "linear": {"schedule": Schedule("linear", 0.1, 0.0)},
    "wsd": {"schedule": Schedule("wsd", 0.1, 0.0, own={"decay_fraction": 0.5})},
    "constant": {"schedule": Schedule("constant", 0.1, 1.0)},
    "sgd": {"optimizer": optimizer_named("sgd", lr=1.0)},
    "sgd_nesterov": {"optimizer": optimizer_named("sgd", lr=1.0, nesterov=True)},
    "lion": {"optimizer": optimizer_named("lion", lr=3e-3)},
    "muon": {"optimizer": optimizer_named("muon", lr=5e-3)},
    "adafactor": {"optimizer": optimizer_named("adafactor", lr=0.3)},
}


def with_row(table: dict[str, Any], row: str, numbers: list[float]) -> dict[str, Any]:
    """The table with a row that it lacks; a row that it has stays, unless all are of other mathematics."""
    same = table if table.get("numerics") == NUMERICS else {}
    return {"numerics": NUMERICS, row: numbers} | same


def test_a_new_row_moves_no_other_until_the_mathematics_does():
    table = {"numerics": NUMERICS, "a": [1.0], "b": [2.0]}
    assert with_row(table, "c", [3.0]) == table | {"c": [3.0]}
    assert with_row(table, "a", [9.0]) == table
    earlier = table | {"numerics": NUMERICS - 1}
    assert with_row(earlier, "a", [9.0]) == {"numerics": NUMERICS, "a": [9.0]}


@pytest.mark.parametrize("row", ROWS)
def test_numbers_stay(row, shards, tmp_path):
    trained(tiny_run(**ROWS[row]), run_id="r", store=tmp_path, shards=shards, checkpoint_seconds=1e9)
    measured = RunStore(tmp_path).summary("r").measured
    numbers = [measured[key] for key in ("train/loss", "val/bpb", "val/excess_bpb")]
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    if os.environ.get("LAB_WRITE_GOLDEN"):
        table = with_row(table, row, numbers)
        TABLE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")
    if row not in table:
        pytest.fail(f"{row} is new: give it a golden row (see this file's docstring)")
    assert table["numerics"] == NUMERICS, (
        "NUMERICS moved: write the golden table anew (see this file's docstring)"
    )
    # CPUs differ in the order of their sums, by less than this; a change of the mathematics is larger.
    assert numbers == pytest.approx(table[row], rel=1e-4), "numbers changed: see this file's docstring"


@pytest.mark.parametrize(
    "part", ["stability", "regularization", "optimizer", "schedule", "embedding", "init"]
)
def test_every_key_of_the_recipe_has_a_row(part):
    base, rows = plain(getattr(BASE, part)), [plain(getattr(tiny_run(**row), part)) for row in ROWS.values()]
    for key in base.keys() - {"name"}:
        assert any(row.get(key, base[key]) != base[key] for row in rows), key


@pytest.mark.parametrize("axis", ["optimizer", "schedule"])
def test_every_option_of_training_has_a_row(axis):
    assert {getattr(tiny_run(**row), axis).name for row in ROWS.values()} == {
        path.stem for path in (CONF / axis).glob("*.yaml")
    }


def test_every_row_of_the_recipe_is_felt():
    table = json.loads(TABLE.read_text())
    base = table["norm-rmsnorm"]
    same = {row for row in ROWS if tiny_run(**ROWS[row]) == BASE}
    assert {"norm-rmsnorm", "position-rope", "block-serial"} <= same
    # Micro-batches change no sum, and an RMSNorm has no bias to leave out.
    for row in table.keys() - same - {"numerics", "accumulation", "bias-none"}:
        assert table[row] != pytest.approx(base, rel=1e-3), row
