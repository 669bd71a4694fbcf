"""The command line end to end: sweeps, reports and records, listings are stable JSON, and bad input starts
nothing.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lab.commands import places
from lab.config import compose
from lab.config.strict import ConfigError, plain
from lab.plan import ablation
from lab.report import publication
from lab.store import plan_record
from lab.sweep import away as worker
from tests.paths import THREE_NORMS, report_of

pytestmark = pytest.mark.slow

QUICK = [
    "size=nano",
    "budget.amount=2048",
    "data.stories=120",
    "data.validation_stories=12",
    "evaluation.documents=4",
    "evaluation.rows=4",
    "evaluation.choices=0",
    "evaluation.samples=0",
    "tracker=none",
]


def command(*arguments, folder: Path, **environment):
    """`lab` as a process of its own."""
    env = (
        os.environ
        | {"LAB_RESULTS": str(folder / "results"), "LAB_CACHE": str(folder / "cache")}
        | environment
    )
    return subprocess.run(
        [sys.executable, "-m", "lab", *arguments], capture_output=True, text=True, env=env, timeout=300
    )


def test_the_same_command_again_trains_nothing_and_publishing_again_changes_nothing(lab, capsys):
    command = ("sweep", "confidence", *QUICK, "--seeds", "1", "--json")
    assert lab(*command) == 0
    logs = {p: p.stat().st_mtime_ns for p in (places.RESULTS / "runs").rglob("metrics.jsonl")}
    capsys.readouterr()
    assert lab(*command) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 4 and {row["state"] for row in rows} <= {"finished", "diverged"}
    assert logs == {p: p.stat().st_mtime_ns for p in (places.RESULTS / "runs").rglob("metrics.jsonl")}
    assert lab("publish", "confidence") == 0
    lines = next((places.RESULTS / "confidence").glob("*/runs.jsonl"))
    first = lines.read_bytes()
    assert max(map(len, first.splitlines())) <= 8192 and len(first.splitlines()) == 4
    assert lab("publish", "confidence") == 0 and lines.read_bytes() == first


def test_an_unfinished_sweep_is_kept_and_another_clone_goes_on_from_it(lab, tmp_path, monkeypatch, capsys):
    command = ("sweep", "confidence", *QUICK, "data.seed=7", "--seeds", "1")
    monkeypatch.setattr(places, "RESULTS", tmp_path / "here")
    assert lab(*command) == 0
    store = places.store()
    open_run, *ended = store.ids()
    (store.folder(open_run) / "summary.json").unlink()
    assert lab("publish", "confidence") == 2
    assert lab("publish", "confidence", "--unfinished") == 0
    [folder] = (places.RESULTS / "confidence").iterdir()
    assert {json.loads(line)["run_id"] for line in (folder / "runs.jsonl").read_text().splitlines()} == {
        *ended
    }
    assert {path.name for path in folder.iterdir()} == {"runs.jsonl", "registration.json"}
    clone = tmp_path / "clone/confidence"
    shutil.copytree(folder, clone / folder.name)
    monkeypatch.setattr(places, "RESULTS", tmp_path / "clone")
    capsys.readouterr()
    assert lab(*command, "--published") == 0
    assert "3 runs taken from published lines" in capsys.readouterr().err
    assert lab("publish", "confidence") == 0
    assert (clone / folder.name / "verdict.json").exists()
    first = (folder / "registration.json").read_bytes()
    assert (clone / folder.name / "registration.json").read_bytes() == first


def test_a_searched_sweep_runs_from_plan_to_report_and_publishes_its_search(
    lab, tmp_path, monkeypatch, capsys
):
    text = THREE_NORMS.read_text().replace("seeds: 3", "seeds: 1\nsearch: {points: 3, seeds: [100]}")
    text = re.sub("  none: .*\n", "", text)
    (tmp_path / "quick.yaml").write_text(text)
    monkeypatch.setattr(ablation, "ABLATIONS", tmp_path)
    monkeypatch.setattr(ablation, "ROOT", tmp_path)
    command = ("sweep", "quick", *QUICK, "--search")
    assert lab(*command, "--plan") == 0
    assert "6 runs of 2 arms at 0.0019, 0.006, 0.019" in " ".join(capsys.readouterr().out.split())
    assert lab(*command) == 0
    report = report_of(capsys.readouterr().out)
    setting = report.parent.name
    assert setting.endswith("-lr") and (report.parent / "figures/rates.svg").exists()
    plan = json.loads((report.parent / "plan.json").read_text())
    assert set(plan["search"]["best"]) == {"rmsnorm", "layernorm"}
    assert lab("publish", "quick", setting) == 0
    lines = (places.RESULTS / "quick" / setting / "runs.jsonl").read_text().splitlines()
    tried = len(plan["search"]["values"]) * 2
    assert tried + 2 <= len(lines) <= tried + 4
    logs = {p: p.stat().st_mtime_ns for p in (places.RESULTS / "runs").rglob("metrics.jsonl")}
    assert lab(*command) == 0
    assert logs == {p: p.stat().st_mtime_ns for p in (places.RESULTS / "runs").rglob("metrics.jsonl")}


@pytest.fixture(scope="module")
def published(lab) -> Path:
    """The folder of one published sweep of `confidence` with one seed; nothing may write into it."""
    assert lab("sweep", "confidence", *QUICK, "--seeds", "1") == 0 and lab("publish", "confidence") == 0
    return next((places.RESULTS / "confidence").iterdir())


def test_reports_rebuild_from_published_lines_alone(lab, published, tmp_path, monkeypatch):
    clone = tmp_path / "results/confidence" / published.name
    clone.mkdir(parents=True)
    for file in ("plan.json", "runs.jsonl"):
        (clone / file).write_bytes((published / file).read_bytes())
    monkeypatch.setattr(places, "RESULTS", tmp_path / "results")
    assert lab("report", "confidence") == 0
    rebuilt = tmp_path / "results/sweeps/confidence" / published.name / "verdict.json"
    assert rebuilt.read_bytes() == (published / "verdict.json").read_bytes()


@pytest.mark.parametrize(("torch", "taken"), [(None, 2), ("1.0", 0)])
def test_published_runs_of_the_torch_of_here_are_taken_over(
    lab, published, tmp_path, monkeypatch, capsys, torch, taken
):
    command = ("sweep", "confidence", *QUICK, "--seeds", "1")
    records = [json.loads(line) for line in (published / "runs.jsonl").read_text().splitlines()][:2]
    for record in records:
        record["provenance"]["torch"] = torch or record["provenance"]["torch"]
    clone = tmp_path / "confidence" / published.name
    clone.mkdir(parents=True)
    (clone / "runs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    monkeypatch.setattr(places, "RESULTS", tmp_path)
    capsys.readouterr()
    assert lab(*command, "--published") == 0
    assert len(list((tmp_path / "runs").glob("*/metrics.jsonl"))) == 4 - taken
    assert ("2 runs taken from published lines" in capsys.readouterr().err) == (taken == 2)
    if taken:
        assert [plain(places.store().record(record["run_id"])) for record in records] == records
    assert lab("status") == 0


def test_publishing_never_takes_runs_away_and_mends_failed_ones(lab, capsys):
    sweep = ("sweep", "norm-placement", *QUICK)
    assert lab(*sweep, "--seeds", "2") == 0 and lab("publish", "norm-placement") == 0
    folder = next((places.RESULTS / "norm-placement").iterdir())
    published = (folder / "runs.jsonl").read_text().splitlines()
    assert lab(*sweep, "--seeds", "1") == 0
    assert "with others the sweep can't be published" in capsys.readouterr().err
    assert lab("publish", "norm-placement") == 2
    assert "since then moved: the judging seeds (0, 1, now 0)" in capsys.readouterr().err
    fewer = plan_record.load(next((places.RESULTS / "sweeps/norm-placement").glob("*/plan.json")))
    with pytest.raises(ConfigError, match="published runs are not in this sweep"):
        publication.publish(fewer, places.store(), places.RESULTS)
    assert (folder / "runs.jsonl").read_text().splitlines() == published
    failed = json.loads(published[0]) | {"state": "failed"}
    (folder / "runs.jsonl").write_text("\n".join([json.dumps(failed), *published[1:]]) + "\n")
    assert lab(*sweep, "--seeds", "2") == 0 and lab("publish", "norm-placement") == 0
    assert (folder / "runs.jsonl").read_text().splitlines() == published


def test_fresh_seeds_are_judged_and_published_beside_the_first_ones(lab, capsys):
    """The same command goes on with the seeds that it began with."""
    own = "optimizer.eps=2e-8"
    sweep = ("sweep", "norm-placement", *QUICK, own, "--seeds", "1")
    assert lab(*sweep) == 0
    for _ in range(2):
        assert lab(*sweep, "--fresh-seeds") == 0
    paths = (places.RESULTS / "sweeps/norm-placement").glob("*/plan.json")
    plans = [plan for path in paths if own in (plan := plan_record.load(path)).overrides]
    assert sorted(plan.seeds for plan in plans) == [(0,), (1,)]
    [fresh] = [plan.setting for plan in plans if plan.seeds == (1,)]
    assert fresh.endswith("-s1") and lab("publish", "norm-placement", fresh) == 0
    folder = places.RESULTS / "norm-placement" / fresh
    assert json.loads((folder / "registration.json").read_text())["seeds"] == [1]


def test_a_failed_run_is_named_and_retried_on_request(lab, capsys):
    command = ("train", *QUICK, "seed=77")
    assert lab(*command, "--json") == 0
    run = json.loads(capsys.readouterr().out)[0]["id"]
    store = places.store()
    store.fail(run, "Traceback", reason="RuntimeError: cosmic ray")
    assert lab(*command) == 1
    assert "cosmic ray" in capsys.readouterr().err
    assert lab(*command, "--retry") == 0
    assert store.state(run) in ("finished", "diverged")


@pytest.mark.parametrize("file", ["summary.json", "manifest.json", "config.json"])
def test_a_damaged_run_is_named_and_hides_no_other(lab, capsys, file):
    assert lab("train", "-m", *QUICK, "seed=81,82", "--json") == 0
    damaged, sound = (row["id"] for row in json.loads(capsys.readouterr().out))
    path = places.RESULTS / "runs" / damaged / file
    content = path.read_text()
    path.write_text("{")
    try:
        assert lab("status", "--json") == 0
        states = {row["id"]: row["state"] for row in json.loads(capsys.readouterr().out)}
        assert states[damaged] == "damaged" and states[sound] in ("finished", "diverged")
        if file == "summary.json":
            assert lab("train", *QUICK, "seed=81") == 2
            error = capsys.readouterr().err
            assert str(path) in error and "Remove" in error
    finally:
        path.write_text(content)


@pytest.mark.parametrize(
    "words", [("sweep", "norm"), ("train",), ("noise",), ("tune", "norm", "seed=int:1:3")]
)
def test_folders_that_cannot_be_written_are_named_before_anything_starts(tmp_path, words):
    (tmp_path / "file").touch()
    done = command(
        *words, *QUICK, folder=tmp_path, LAB_RESULTS=str(tmp_path / "file"), LAB_CACHE="/proc/none"
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"error: LAB_RESULTS = {tmp_path}/file: is a file. Set LAB_RESULTS to a folder that can be written.",
        "error: LAB_CACHE = /proc/none: can't be written (No such file or directory). Set LAB_CACHE to a "
        "folder that can be written.",
    ]


def test_completion_offers_commands_ablations_options_and_keys(lab, capsys):
    def offered(*words):
        assert lab("completion", "words", *words) == 0
        return capsys.readouterr().out.split()

    assert offered("sw", "sw") == ["sweep"]
    assert offered("sweep", "ffn-r") == ["ffn-ratio"]
    assert {"norm=layernorm", "norm=none", "norm=rmsnorm"} <= set(offered("train", "norm="))
    assert "optimizer.lr=" in offered("train", "optimizer.")
    assert lab("completion", "bash") == 0 and "complete -F _lab lab" in capsys.readouterr().out


def test_a_branch_starts_from_a_kept_checkpoint_and_says_so(lab, capsys):
    recipe = (*QUICK, "budget.amount=6144", "schedule=constant", "schedule.warmup_fraction=0")
    assert lab("train", *recipe, "engine.keep_every=4", "--json") == 0
    parent = json.loads(capsys.readouterr().out)[0]["id"]
    drop = (*QUICK, "schedule=linear", "schedule.warmup_fraction=0", f"init_from={parent[:8]}@last")
    assert lab("sweep", "confidence", *drop, "--seeds", "1") == 0
    plans = (places.RESULTS / "sweeps/confidence").glob("*/plan.json")
    plan = json.loads(max(plans, key=lambda path: path.stat().st_mtime).read_text())
    assert f"Every arm starts from checkpoint {parent}@6, after 6,144 tokens." in " ".join(plan["notes"])
    assert f"init_from={parent}@6" in plan["overrides"]
    child = places.store().record(plan["arms"][0]["runs"]["0"])
    assert child.config.init_from == f"{parent}@6" and child.parent.tokens == 6144
    assert (places.RESULTS / "runs" / parent / "checkpoint/6.keep").exists()
    assert lab("publish", "confidence", plan["setting"]) == 0
    capsys.readouterr()
    assert lab("train", *recipe, f"init_from={parent}@5", "norm=layernorm") == 2
    assert "Kept: 4, 6." in capsys.readouterr().err
    assert lab("train", "-m", *recipe, f"init_from={parent}@4", "norm=rmsnorm,layernorm,none") == 2
    errors = capsys.readouterr().err.splitlines()
    assert [e.rpartition(": the")[0].rpartition(": ")[2] for e in errors] == [
        "norm = layernorm",
        "norm = none",
    ]


def test_a_sweep_trained_elsewhere_comes_back_with_its_report(lab, tmp_path, capsys):
    sweep = ("stability", *QUICK, "data.seed=9", "--seeds", "1")
    out = str(tmp_path / "out")
    assert lab("plan", *sweep, "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert lab("sweep", *sweep, "--plan", "--json") == 0
    assert planned == json.loads(capsys.readouterr().out)
    assert lab("plan", *sweep, "--out", out) == 0
    assert f"python -m lab.sweep.away {out}" in capsys.readouterr().out
    assert worker.main([out]) == 0
    capsys.readouterr()
    assert lab("collect", out, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["id"] for row in rows} == {run for arm in planned for run in arm["runs"]}
    assert {row["note"] for row in rows} == {"collected"}
    carried = json.loads((tmp_path / "out/plan.json").read_text())
    path = places.RESULTS / "sweeps/stability" / carried["setting"] / "plan.json"
    assert json.loads(path.read_text()) == carried
    larger = json.loads(path.read_text())
    larger["arms"][0]["runs"]["1"] = "0123456789ab"
    for home in (larger, larger | {"arms": larger["arms"][:1]}):
        path.write_text(json.dumps(home))
        assert lab("collect", out) == 0 and json.loads(path.read_text()) == home
        told = "the report is that of the sweep here" in capsys.readouterr().err
        assert told is (len(home["arms"]) == 1)  # neither has all runs of the other
    path.write_text(json.dumps(carried | {"arms": carried["arms"][:1]}))
    assert lab("collect", out) == 0 and json.loads(path.read_text()) == carried
    assert lab("sweep", *sweep) == 0
    assert "report: " in capsys.readouterr().out
    assert lab("collect", str(tmp_path)) == 2


def test_a_plan_for_a_gpu_elsewhere_gets_its_defaults(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(compose, "has_gpu", lambda: False)
    asked = ("norm", "engine.device=cuda", "vocab=bytes", *[text for text in QUICK if text != "size=nano"])
    assert lab("plan", *asked, "budget.amount=32768", "--out", str(tmp_path / "out")) == 0
    jobs = json.loads((tmp_path / "out/jobs.json").read_text())["jobs"]
    small = yaml.safe_load((places.ROOT / "conf/size/small.yaml").read_text())
    assert {job["device"] for job in jobs} == {"cuda"}
    assert {job["config"]["precision"]["dtype"] for job in jobs} == {"bfloat16"}
    assert {job["config"]["shape"]["num_layers"] for job in jobs} == {small["num_layers"]}
    assert lab("sweep", *asked, "--plan") == 2


def test_listings_carry_id_and_state(lab, capsys):
    for arguments in (["status"], ["axes"], ["sweep", "confidence", *QUICK, "--plan"]):
        capsys.readouterr()
        assert lab(*arguments, "--json") == 0
        rows = json.loads(capsys.readouterr().out)
        assert rows and all(row["id"] and row["state"] for row in rows)


def test_multirun_trains_each_point_once(lab, capsys):
    assert lab("train", "-m", "norm=rmsnorm,layernorm", *QUICK, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["arm"] for row in rows] == ["norm=rmsnorm", "norm=layernorm"]
    assert {row["state"] for row in rows} == {"finished"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "norm=rmsnrom", "heads=7"], "heads.value = 7 (command line): does not divide d_model 96"),
        (["sweep", "fn-ratio"], 'fn-ratio: no such ablation. Did you mean "ffn-ratio"?'),
        (["sweep", "ffn-ratio", "ffn_ratio=8"], "sets ffn_ratio; choose another key"),
        (["sweep", "ffn-ratio", "--with", "plain_x65"], 'no such optional arm. Did you mean "plain_x64"?'),
        (["sweep", "ffn-ratio", "--seeds", "0"], "needs a whole number of 1 or more"),
        (["sweep", "norm", "--sede", "3"], "unrecognized arguments"),
        (["swep"], 'no command "swep". Did you mean "sweep"?'),
        (["status", "norm"], "unrecognized arguments: norm"),
        (["report", "../x"], "../x: no such ablation"),
        (["publish", "norm", "elsewhere"], "no sweep of it has run here"),
        (["report", "norm"], "no sweep of it has run here"),
        (["train", "engine.device=cuda"], "no such device. Found: cpu."),
        (["train", "init_from=best"], "init_from = best (command line): needs RUN@STEP"),
        (
            ["sweep", "norm", "init_from=0123456789ab@5"],
            "init_from = 0123456789ab@5 (command line): no such run.",
        ),
        (["collect", "/nowhere"], "/nowhere/jobs.json: cannot be read"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_exits_2_with_the_fix_and_leaves_nothing(
    arguments, message, lab, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(places, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(places, "CACHE", tmp_path / "cache")
    assert exit_code(lab, arguments) == 2
    told = capsys.readouterr().err
    assert message in told and "Traceback" not in told
    assert not list(tmp_path.rglob("*.json*"))


def exit_code(lab, arguments) -> int:
    """Of a command line that may also leave by the parser's own exit."""
    try:
        return lab(*arguments)
    except SystemExit as left:
        return left.code


def test_help_lists_the_commands(tmp_path):
    done = command("--help", folder=tmp_path)
    assert done.returncode == 0
    for name in (
        "train",
        "sweep",
        "plan",
        "collect",
        "status",
        "report",
        "publish",
        "axes",
        "baselines",
        "sync",
    ):
        assert re.search(rf"^    {name}\b", done.stdout, re.MULTILINE), name


def test_hydra_flags_still_work(tmp_path):
    done = command("train", "--cfg", "job", "norm=layernorm", folder=tmp_path)
    assert done.returncode == 0 and "name: layernorm" in done.stdout


def test_the_points_of_a_multirun_are_printed_and_trained_by_none(lab, capsys):
    assert lab("train", "-m", "seed=0,1", "norm=layernorm", "--cfg", "job") == 0
    told = capsys.readouterr().out
    points = list(yaml.safe_load_all(told))
    assert [(point["seed"], point["norm"]["name"]) for point in points] == [
        (0, "layernorm"),
        (1, "layernorm"),
    ]
    assert re.findall("^--- # (.*)", told, re.MULTILINE) == ["seed=0 norm=layernorm", "seed=1 norm=layernorm"]
    assert lab("train", "-m", "seed=0,x", "--cfg", "job") == 2
    assert "seed = x (command line): needs a whole number" in capsys.readouterr().err
    assert lab("train", "-m", "seed=0,1", "--info") == 2
