"""Pairs laid side by side and the tables of spikes: what they count, whom they show, and text that stays
text.
"""

import pytest

from lab import report
from lab.report.figures import draw
from tests.report.test_report import HOSTILE, Tree, markdown_tags, shown
from tests.synthetic_sweep import evidence, sweep

pytestmark = pytest.mark.slow

VALUES = {
    "new_x1": [1.50, 1.50],
    "old_x1": [1.60, 1.62],
    "old_x2": [1.58, "diverged"],
    "old_x3": [1.61, 1.60],
}
SPIKES = [[150, "grad/norm", 4.2, 7.5], [200, "train/loss", 3.3, 5.0], [250, "grad/norm", 6.1, 9.5]]


def spiky(pairs, *, movers=True):
    """Every run of the old family has three spikes that its record keeps, of eight of the gradient norm."""
    plan, records = sweep(VALUES, claims=[])
    plan["side_by_side"] = pairs
    for record in records:
        old = record["run_id"].startswith("old")
        rule = {"window": 100, "threshold": 4.0}
        of = rule | {"events": 8, "score_k4": 0.04, "score_k7": 0.01, "p999_over_median": 12.5}
        none = rule | {"events": 0, "score_k4": 0.0, "score_k7": 0.0, "p999_over_median": 2.0}
        record["summary"]["spikes"] = {"grad/norm": of if old else none, "train/loss": none}
        record["curves"]["spikes"] = SPIKES if old else []
        listed = [[2, "attention/logit_max/3"], None, [1, "attention/logit_max/3"]] if old else []
        counted = {"of": listed, "spikes": [2, 3] if old else [0, 0], "quiet": [1, 20]}
        record["curves"] |= {"first_movers": counted} if movers else {}
    return plan, records


def tables(plan, records):
    return {one.heading: one.table for one in shown(plan, records).tables}


def row(table, label):
    cells = next(row for row in texts(table) if row[0] == label)
    return dict(zip(table.header, cells, strict=True))


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_the_table_by_arm_counts_runs_that_finished_and_that_diverged():
    old = row(tables(*spiky([["old", "new"]]))["Spikes by arm"], "old 2x")
    assert old == {
        "arm": "old 2x",
        "runs": "1 diverged, 1 finished",
        "spikes of the gradient norm": "16",
        "score k=4": "4.00 %",
        "score k=7": "1.00 %",
        "p99.9 / median": "12.5",
        "spikes of the loss": "0",
        "score k=4 (loss)": "0.00 %",
        "something rose before a spike": "4 of 6",
        "before a quiet step": "2 of 40",
        "most frequent first mover": "attention/logit_max of layer 3, before it: 4 of 6",
    }


def test_a_run_without_a_scored_step_leaves_the_mean_alone():
    plan, records = spiky([["old", "new"]])
    next(r for r in records if r["run_id"] == "old_x2-1")["summary"]["spikes"]["grad/norm"]["score_k4"] = None
    assert row(tables(plan, records)["Spikes by arm"], "old 2x")["score k=4"] == "4.00 %"


@pytest.mark.parametrize(
    ("mover", "words"),
    [
        (None, "none"),
        ([0, "grad/norm/block_11"], "grad/norm of layer 11, with it"),
        ([1, "residual/rms/0"], "residual/rms of layer 0, 1 step before it"),
        ([10, "grad/norm/head"], "grad/norm of head, 10 steps before it"),
        ([3, "logits/z"], "logits/z, 3 steps before it"),
    ],
)
def test_spikes_one_by_one_by_score(mover, words):
    plan, records = spiky([["old", "new"]])
    for record in records:
        record["curves"]["spikes"] = record["curves"]["first_movers"]["of"] = []
    changed = next(r for r in records if r["run_id"] == "old_x3-1")["curves"]
    changed["spikes"], changed["first_movers"] = (
        SPIKES,
        {"of": [mover, None, mover], "spikes": [0, 0], "quiet": [0, 0]},
    )
    listed = texts(tables(plan, records)["The largest spikes"])
    assert [cells[:6] for cells in listed] == [
        ["old 3x", "1", "250", "grad/norm", "6.1", "9.5"],
        ["old 3x", "1", "150", "grad/norm", "4.2", "7.5"],
        ["old 3x", "1", "200", "train/loss", "3.3", "5.0"],
    ]
    assert listed[0][6] == words and listed[2][6] == "none"


def test_records_from_before_first_movers_say_so():
    found = tables(*spiky([["old", "new"]], movers=False))
    assert row(found["Spikes by arm"], "old 1x")["most frequent first mover"] == "not measured: 6 of 6"
    assert row(found["Spikes by arm"], "old 1x")["before a quiet step"] == ""
    assert {cells[6] for cells in texts(found["The largest spikes"])} == {"not measured"}


def labels(plan, records):
    """The legends of the left panels, top to bottom."""
    axes = draw(evidence(plan, records))["side_by_side"].axes
    return [[text.get_text() for text in panel.get_legend().get_texts()] for panel in axes[1::2]]


def test_a_family_stands_for_its_best_arm_and_a_pair_is_drawn_once():
    """old 3x has the lowest mean: old 2x has a better seed, but the other one diverged and counts as
    before training.
    """
    assert labels(*spiky([["old", "new"], ["old_x3", "new_x1"], ["old_x2", "new_x1"]])) == [
        ["old 3x (best of old): 16 spikes in 2 runs", "new 1x (best of new): 0 spikes in 2 runs"],
        ["old 2x: 16 spikes in 2 runs, 1 of 2 diverged", "new 1x: 0 spikes in 2 runs"],
    ]


def test_spikes_are_marked_where_they_stand():
    """A spike at step 150 of 1,024 tokens; the loss has none there."""
    plan, records = spiky([["old_x1", "new_x1"]])
    left, right = draw(evidence(plan, records))["side_by_side"].axes
    marked = [line for line in right.lines if line.get_marker() == "v" and len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in marked] == [[150 * 1024, 250 * 1024]] * 2
    crosses = [line for line in left.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in crosses] == [[200 * 1024]] * 2


def test_a_diverging_run_flattens_no_other():
    plan, records = spiky([["old_x1", "new_x1"]])
    records[2]["curves"]["train"] += [[301, 301 * 1024, 900.0, 1e30]]
    figures = draw(evidence(plan, records))
    left, right = figures["side_by_side"].axes
    assert left.get_ylim()[1] < 10 and right.get_ylim()[1] < 1e5
    assert figures["gradients"].axes[0].get_ylim()[1] < 1e5


def test_an_arm_that_never_ran_is_left_out(tmp_path):
    plan, records = spiky([["old_x1", "new_x1"], ["old", "new"]])
    only_new = [record for record in records if record["run_id"].startswith("new")]
    assert "side_by_side" not in draw(evidence(plan, only_new))
    for kept in (only_new, []):
        assert report.write(report.build(evidence(plan, kept)), tmp_path).exists()


def test_hostile_text_changes_no_element(tmp_path):
    plan, records = spiky([["old_x1", "new_x1"]])
    written = report.write(report.build(evidence(plan, records)), tmp_path / "harmless")
    for number, arm in enumerate(plan["arms"]):
        arm["label"] = HOSTILE[number]
    for record in records:
        for mover in filter(None, record["curves"]["first_movers"]["of"]):
            mover[1] = HOSTILE[0]
        record["curves"]["spikes"] = [
            [step, HOSTILE[1], *rest] for step, _, *rest in record["curves"]["spikes"]
        ]
    hostile = report.write(report.build(evidence(plan, records)), tmp_path / "hostile")
    harmless, shown = Tree(written.read_text()), Tree(hostile.read_text())
    assert shown.tags == harmless.tags and harmless.text.count("logit_max of layer 3") > 3
    assert HOSTILE[0] in shown.text and HOSTILE[1] in shown.text
    assert markdown_tags(tmp_path / "hostile") == markdown_tags(tmp_path / "harmless")


def test_a_plan_without_pairs_has_neither_figure_nor_tables():
    plan, records = spiky([])
    del plan["side_by_side"]
    assert "side_by_side" not in draw(evidence(plan, records))
    assert tables(plan, records) == {}
