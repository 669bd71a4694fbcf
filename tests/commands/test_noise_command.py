"""`lab noise`: sixteen runs, shared with sweeps and trained once, and a file that plans of the same
setting hold.
"""

import json
import shutil
import statistics

import pytest
import yaml

from lab.commands import places
from lab.config import compose
from lab.config.strict import plain
from lab.plan import planning
from lab.store.noise_record import TWIN
from tests.paths import report_of

pytestmark = pytest.mark.slow

TINY = {
    "size/nano.yaml": {
        "d_model": 32,
        "num_layers": 1,
        "head_dim": 8,
        "context_length": 32,
        "vocab_size": 300,
        "tokens_per_step": 256,
        "tokens": 10240,
        "stories": 120,
        "lr": 0.02,
    },
    "data/stories.yaml": {"validation_stories": 12},
    "config.yaml": {
        "evaluation": {"points": 2, "documents": 4, "rows": 4, "choices": 0, "samples": 0, "lengths": []}
    },
}


@pytest.fixture(scope="module", autouse=True)
def tiny(tmp_path_factory):
    """A conf/ whose nano and stories are tiny, since overrides of them are refused."""
    conf = tmp_path_factory.mktemp("tree") / "conf"
    shutil.copytree(compose.CONF, conf)
    for file, values in TINY.items():
        path = conf / file
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | values, sort_keys=False))
    cached = (compose.groups, compose.option, compose._defaults)
    patch = pytest.MonkeyPatch()
    patch.setattr(compose, "CONF", conf)
    for function in cached:
        function.cache_clear()
    yield
    patch.undo()
    for function in cached:
        function.cache_clear()


def logs():
    return {p: p.stat().st_mtime_ns for p in (places.RESULTS / "runs").rglob("metrics.jsonl")}


@pytest.fixture(scope="module")
def measured(lab):
    assert lab("noise", "tracker=none") == 0
    return json.loads((places.RESULTS / "noise/nano-stories-cpu.json").read_text())


def test_the_file_is_the_spread_of_sixteen_runs(measured):
    baseline, twin = measured["runs"]["baseline"], measured["runs"][TWIN]
    runs = {*baseline.values(), *twin.values()}
    assert runs == set(places.store().ids()) and len(runs) == 16 and measured["seeds"] == list(range(8))
    assert {"val/bpb", "val/excess_bpb", "train/loss", "gap"} <= set(measured["metrics"])
    found = measured["metrics"]["val/bpb"]
    for name, of in measured["runs"].items():
        records = {seed: places.store().record(run_id) for seed, run_id in of.items()}
        assert {seed: record.ended.bpb for seed, record in records.items()} == found["values"][name]
        assert {str(record.seed) for record in records.values()} == set(of)
    assert {places.store().config(run_id).optimizer.own["eps"] for run_id in twin.values()} == {1.1e-8}
    first, second = (list(found["values"][name].values()) for name in ("baseline", TWIN))
    assert found["seed_sd"] == pytest.approx(statistics.stdev(first) / statistics.fmean(first))
    gaps = [b / a - 1 for a, b in zip(first, second, strict=True)]
    assert found["paired_sd"] == pytest.approx(statistics.stdev(gaps)) and found["paired_sd"] > 0


def test_again_it_trains_nothing_and_prints_the_same(lab, measured, capsys):
    before, file = logs(), places.RESULTS / "noise/nano-stories-cpu.json"
    content = file.read_bytes()
    assert lab("noise", "tracker=none", "engine.workers=1", "--json") == 0
    assert logs() == before and file.read_bytes() == content
    rows = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["val/bpb"]["seed_sd"] == measured["metrics"]["val/bpb"]["seed_sd"]
    assert all(row["state"] == "measured" for row in rows.values())
    assert lab("noise", "tracker=none") == 0
    said = capsys.readouterr().out
    assert "8 seeds tell" in said and f"{measured['metrics']['val/bpb']['mean']:.4f}" in said
    assert lab("status", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert {(row["ablation"], row["arm"]) for row in listed} == {("noise", "baseline"), ("noise", "twin")}


def test_a_sweep_of_the_setting_shares_its_runs_and_says_its_noise(lab, measured, capsys):
    assert lab("sweep", "confidence", "tracker=none", "--seeds", "2") == 0
    report = report_of(capsys.readouterr().out)
    plan = json.loads((report.parent / "plan.json").read_text())
    [baseline] = [arm for arm in plan["arms"] if arm["baseline"]]
    assert plan["noise"] == measured
    assert baseline["runs"] == {seed: measured["runs"]["baseline"][seed] for seed in "01"}
    assert (
        "Measured by lab noise: val/bpb of the baseline varies" in (report.parent / "REPORT.md").read_text()
    )
    assert "Measured by lab noise: val/bpb of the baseline varies" in report.read_text()


def test_plans_hold_the_noise_of_their_setting_alone(measured):
    def held(*overrides, **options):
        made = planning.make("norm", overrides, results=places.RESULTS, cache=places.CACHE, **options)
        return plain(made.record.noise)

    assert held() == held(hold="none") == measured
    assert held("optimizer.lr=1e-3") is None and held("data.seed=5") is None


def test_what_would_change_the_baseline_is_refused_with_all_else_that_is_wrong(lab, measured, capsys):
    before = logs()
    assert lab("noise", "optimizer.lr=1e-3", "size.num_layers=2", "seed=3", "size=nanno", "tracker=none") == 2
    errors = capsys.readouterr().err.splitlines()
    for text in ("optimizer.lr=1e-3", "size.num_layers=2", "seed=3"):
        [line] = [
            line for line in errors if line.startswith(f"error: {text} (command line): lab noise measures")
        ]
        assert "Leave it out; size, data, data.path" in line
    assert [line for line in errors if 'unknown size "nanno"' in line]
    assert logs() == before
