"""Every form of record that a run wrote or a sweep published keeps loading, and is written as it was.

tests/store/formats/<kind>/ has an example of each form, cut from what was published or from what training
left; the results of this project are read whole.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.config.schema import RunConfig
from lab.config.strict import ConfigError, plain, read
from lab.store import noise_record, plan_record
from lab.store.files import dumps
from lab.store.identity import run_id
from lab.store.log_line import DIAGNOSTICS, EVALUATION, SAMPLE, SPIKE, STEP, LogLine
from lab.store.noise_record import NoisePlan, NoiseRecord
from lab.store.plan_record import PlanRecord
from lab.store.run_record import Manifest, RunRecord, Summary
from lab.store.run_store import Commit, RunStore
from lab.sweep import parcel
from tests.paths import ROOT

FORMATS, RESULTS = Path(__file__).with_name("formats"), ROOT / "results"
EXAMPLES = sorted(FORMATS.glob("*/*.json"))


@dataclass(frozen=True)
class Form:
    """How a kind of record is read from JSON, and laid out on disk."""

    record: type
    layout: dict[str, Any]
    end: str = ""


INDENTED: dict[str, Any] = {"indent": 1}
FORMS = {
    "line": Form(RunRecord, {"separators": (",", ":")}, end="\n"),
    "config": Form(RunConfig, INDENTED),
    "manifest": Form(Manifest, INDENTED),
    "summary": Form(Summary, INDENTED),
    "commit": Form(Commit, {}),
    "plan": Form(PlanRecord, INDENTED),
    "noise_plan": Form(NoisePlan, INDENTED),
    "noise": Form(NoiseRecord, INDENTED, end="\n"),
    "jobs": Form(parcel.JobsFile, INDENTED),
}

# What records of today have and older ones had not: each stands for what those did.
OF_RECIPE_2 = {"config.regularization.label_smoothing": 0.0, "curves.peaks": {}}
OF_RECIPE_1 = OF_RECIPE_2 | {
    "config.bias": {"name": "norm"},
    "config.block": {"name": "serial"},
    "config.data.grammar": None,
    "config.embedding.head_scaled": True,
    "config.embedding.normed": False,
    "config.embedding.scaled": False,
    "config.evaluation.choices": 32,
    "config.evaluation.lengths": [],
    "config.evaluation.samples": 4,
    "config.ffn": {"name": "dense"},
    "config.init.depth_scaled": False,
    "config.init.std": None,
    "config.init.uniform": False,
    "config.init_from": None,
    "config.pattern": {"name": "full"},
    "config.shape.num_kv_heads": None,
    "config.stability.qk_norm_joint": False,
    "curves.excess": {},
    "summary.skills": {},
    "summary.warning": None,
}
OLDER_EXAMPLES = {
    "line/recipe_1.json": OF_RECIPE_1,
    "line/recipe_2.json": OF_RECIPE_2,
    "plan/first.json": {f"arms.{number}.shape.num_kv_heads": None for number in (0, 1)},
}
OLDER_FOLDERS = {
    "ffn-gated/nano-stories-cpu-lr": OF_RECIPE_2,
    "ffn-ratio/nano-stories-cpu": OF_RECIPE_2,
    "ffn-ratio/nano-stories1-cpu": OF_RECIPE_1,
    "ffn-ratio/nano-tinystories-cpu-6b220e": OF_RECIPE_1,
    "learning-rate/nano-stories-cpu": OF_RECIPE_2,
    "warm-up/nano-stories-cpu": OF_RECIPE_2,
}


def written(record: Any, form: Form) -> str:
    return dumps(plain(record), **form.layout) + form.end


def added(before: Any, after: Any, where: str = "") -> dict[str, Any]:
    """The keys that `after` has more, dotted; nothing may be missing or another value."""
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        before, after = dict(enumerate(before)), dict(enumerate(after))
    if not (isinstance(before, dict) and isinstance(after, dict)):
        assert dumps(before) == dumps(after), f"{where} was {before} and is {after}"
        return {}
    assert before.keys() <= after.keys(), f"{where} lost {before.keys() - after.keys()}"
    dotted = f"{where}." if where else ""
    found = {f"{dotted}{key}": after[key] for key in after.keys() - before.keys()}
    for key in before:
        found |= added(before[key], after[key], f"{dotted}{key}")
    return found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_form_loads_and_is_written_as_it_was(path):
    form, text = FORMS[path.parent.name], path.read_text()
    again = written(read(form.record, json.loads(text)), form)
    lacking = OLDER_EXAMPLES.get(f"{path.parent.name}/{path.name}")
    if lacking is None:
        assert again == text
    else:
        assert added(json.loads(text), json.loads(again)) == lacking


def example(name: str) -> Any:
    path = FORMATS / f"{name}.json"
    return read(FORMS[path.parent.name].record, json.loads(path.read_text()))


def test_what_older_forms_lack_has_the_value_that_it_had():
    """Read off the examples: what each of them is an example of."""
    first = example("line/recipe_1")
    assert first.counts.active_parameters is None and first.config.data.grammar is None
    assert (first.curves.peaks, first.curves.excess, first.curves.first_movers) == ({}, {}, None)
    assert first.ended.skills == {} and first.ended.bpb == 0.34035568221616014
    assert example("plan/first").looks == () and example("plan/first").x.log is True
    assert example("manifest/without_tokenizer").tokenizer_hash is None


def test_what_forms_may_have_is_read():
    """The same for the parts that few records have."""
    assert example("line/failed").summary.measured == {} == example("summary/failed").measured
    assert example("line/diverged").state == "diverged"
    parent = example("line/branch").parent
    assert (parent.run_id, parent.step, parent.tokens) == ("af24d2e9c03e", 3, 288)
    assert parent == example("manifest/branch").parent
    [job] = example("jobs/branch").jobs
    assert [text.rows.rows for text in job.manifest.parent.read] == [12, 12]
    assert len(example("line/earlier_source_hashes").provenance.earlier_source_hashes) == 1
    lengths = example("line/undefined_lengths").ended
    assert lengths.undefined_lengths and all(lengths.measured[k] is None for k in lengths.undefined_lengths)
    movers = example("line/first_movers").curves.first_movers
    assert any(movers.of) and movers.spikes.of >= movers.spikes.often
    searched, on_the_grid = example("plan/searched").search, example("plan/searched_on_the_grid").search
    assert searched.between and on_the_grid.between is None and len(on_the_grid.values) == 5
    assert len(example("plan/searching").run_ids()) == 2 * 5 * 2 + 2 * 2
    assert example("plan/side_by_side").side_by_side and example("plan/searched").stopped.of == 8


def test_a_log_of_every_kind_of_line_is_read_and_written_as_it_was(tmp_path):
    store, text = RunStore(tmp_path), (FORMATS / "metrics/trained.jsonl").read_text()
    (tmp_path / "r").mkdir()
    (tmp_path / "r/metrics.jsonl").write_text(text)
    lines = store.metrics("r")
    assert {line.kind for line in lines} == {STEP, DIAGNOSTICS, SPIKE, EVALUATION, SAMPLE}
    assert [line.number("train/loss") for line in lines if line.kind == STEP][-1] == 4.521820545196533
    store.open_metrics("r", after=6).close()
    assert (tmp_path / "r/metrics.jsonl").read_text() == text
    assert store.tokens("r") == lines[-1].tokens == 6 * 4 * 24


def test_a_line_that_lacks_its_step_is_none_of_a_log():
    line = {"kind": "step", "step": 1, "tokens": 96, "train/loss": None}
    assert plain(LogLine.from_plain(line)) == line and LogLine.from_plain(line).number("train/loss") is None
    for key in ("kind", "step", "tokens"):
        assert LogLine.from_plain({name: value for name, value in line.items() if name != key}) is None


def from_run_folder(load: Callable[[RunStore], Any], name: str) -> tuple[str, Callable[[Path], Any]]:
    return f"r/{name}", lambda root: load(RunStore(root))


def adopted(store: RunStore) -> RunRecord:
    """A published line as a store reads it that has taken the run over."""
    (store.folder("r") / "summary.json").write_text('{"reason": null, "state": "finished"}')
    return store.record("r")


# The example, where it stands on disk, who reads it, and a key that it must have.
READERS = {
    "line/diverged": (*from_run_folder(adopted, "published.json"), "config.monitor.spike_window"),
    "config/trained": (*from_run_folder(lambda s: s.config("r"), "config.json"), "monitor.spike_window"),
    "manifest/trained": (*from_run_folder(lambda s: s.manifest("r"), "manifest.json"), "provenance.torch"),
    "summary/trained": (
        *from_run_folder(lambda s: s.summary("r"), "summary.json"),
        "spikes.grad/norm.events",
    ),
    "plan/searched": ("plan.json", lambda root: plan_record.load(root / "plan.json"), "arms[1].runs"),
    "noise_plan/noise": ("plan.json", lambda root: plan_record.load_any(root / "plan.json"), "arms[1].runs"),
    "noise/measured": ("noise/s.json", lambda root: noise_record.load(root, "s"), "metrics.val/bpb.seed_sd"),
    "jobs/branch": ("jobs.json", parcel.jobs_of, "jobs[0].manifest.parent.read[1].data"),
}


def place_of(values: Any, dotted: str) -> tuple[Any, str]:
    """The object that holds the last key of `a.b[0].c`, and that key."""
    *way, last = dotted.replace("[", ".[").split(".")
    for part in way:
        values = values[int(part[1:-1])] if part.startswith("[") else values[part]
    return values, last


@pytest.mark.parametrize("slip", ["missing", "unknown"])
@pytest.mark.parametrize("name", READERS)
def test_a_missing_or_an_unknown_key_is_refused_with_file_and_key(tmp_path, name, slip):
    where, load, dotted = READERS[name]
    values = json.loads((FORMATS / f"{name}.json").read_text())
    holder, key = place_of(values, dotted)
    if slip == "missing":
        del holder[key]
        wrong = f"{dotted}: must be given."
    else:
        holder[f"{key}x"] = 1
        wrong = f'{dotted}x: unknown key. Did you mean "{key}"?'
    (tmp_path / where).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / where).write_text(json.dumps(values))
    with pytest.raises(ConfigError) as error:
        load(tmp_path)
    [told] = error.value.problems
    assert told.startswith(f"{tmp_path / where}: {wrong} ") and told.endswith(".")


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", sorted(RESULTS.glob("*/*/runs.jsonl")), ids=lambda path: "-".join(path.parts[-3:-1])
)
def test_every_published_run_and_plan_is_written_as_it_was_and_keeps_its_name(path):
    form, lacking = FORMS["line"], OLDER_FOLDERS.get("/".join(path.parts[-3:-1]))
    for text in path.read_text().splitlines(keepends=True):
        record = read(RunRecord, json.loads(text))
        again = written(record, form)
        if again != text:
            assert lacking is not None
            assert added(json.loads(text), json.loads(again)).items() <= lacking.items()
        assert run_id(record.config, record.numerics) == record.run_id
    if not path.with_name("plan.json").exists():  # kept of an unfinished sweep
        return
    plan_text = path.with_name("plan.json").read_text()
    plan = plan_record.load(path.with_name("plan.json"))
    if lacking is OF_RECIPE_1:
        more = added(json.loads(plan_text), plain(plan))
        assert more == {f"arms.{number}.shape.num_kv_heads": None for number in range(len(plan.arms))}
    else:
        assert written(plan, FORMS["plan"]) == plan_text
    if plan.search:
        assert all(of.keys() == set(plan.search.values) for of in plan.search.losses.values())


@pytest.mark.parametrize("path", sorted(RESULTS.glob("noise/*.json")), ids=lambda path: path.stem)
def test_every_measured_noise_is_written_as_it_was(path):
    assert written(noise_record.load(RESULTS, path.stem), FORMS["noise"]) == path.read_text()
