"""Every ablation of the lecture runs from plan to report: two steps of each of its arms, at the size where
it is tried first.
"""

import json
import re

import pytest

from lab.commands import places
from lab.config.strict import ConfigError
from lab.lecture import claim_test
from lab.plan import ablation
from lab.plan.ablation import names
from lab.store.predicate_forms import PREDICATES
from tests.paths import report_of

pytestmark = pytest.mark.slow

STEPS = [
    "size=nano",
    "size.context_length=128",
    "batch.tokens_per_step=256",
    "evaluation.documents=2",
    "evaluation.rows=2",
    "evaluation.choices=0",
    "evaluation.samples=0",
    "tracker=none",
]
STORIES = ["budget.amount=512", "data.stories=120", "data.validation_stories=12"]


@pytest.fixture(scope="module")
def rich(tmp_path_factory) -> list[str]:
    """Text that yields 2,048 tokens: the source of this project. As many would take thousands of stories."""
    path = tmp_path_factory.mktemp("text") / "source.jsonl"
    files = sorted((places.ROOT / "lab").rglob("*.py"))
    path.write_text("".join(json.dumps({"text": file.read_text()[:4000]}) + "\n" for file in files))
    return ["data=text", f"data.path={path}", "budget.amount=2e3"]  # in bytes


@pytest.mark.parametrize("name", names())
def test_every_ablation_runs_from_plan_to_report(lab, rich, name, capsys):
    points = [] if ablation.load(name).horizons else ["evaluation.points=2"]
    assert lab("sweep", name, *STEPS, *points, *(rich if name == "vocab" else STORIES), "--seeds", "1") == 0
    report = report_of(capsys.readouterr().out)
    for file in ("report.html", "REPORT.md", "verdict.json", "plan.json"):
        assert (report.parent / file).stat().st_size > 200
    assert {"final", "curves", "gradients"} <= {
        path.stem for path in (report.parent / "figures").glob("*.svg")
    }
    plan = json.loads((report.parent / "plan.json").read_text())
    assert all(abs(arm["mismatch"]) <= 0.01 for arm in plan["arms"])
    states = {places.store().state(run) for arm in plan["arms"] for run in arm["runs"].values()}
    assert "finished" in states and states <= {"finished", "diverged"}  # spikes has rates that blow up


@pytest.fixture
def example(tmp_path, monkeypatch):
    """Writes CONTRIBUTING's ablation, with parts replaced, and loads it."""
    text = (places.ROOT / "CONTRIBUTING.md").read_text()
    [printed] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "ablations").mkdir()
    monkeypatch.setattr(ablation, "ABLATIONS", tmp_path / "ablations")
    monkeypatch.setattr(ablation, "ROOT", tmp_path)

    def written(*replaced):
        changed = printed
        for old, new in replaced:
            assert old in changed
            changed = changed.replace(old, new)
        (tmp_path / "ablations/mine.yaml").write_text(changed)
        return ablation.load("mine")

    return written


def test_the_example_of_an_ablation_is_one(example, tmp_path):
    loaded = example()
    assert len(loaded.arms) == 2 and len(loaded.claims) == 1
    told = re.findall(r"^\| `(\w+)` \|", (places.ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert set(told) == set(PREDICATES)
    assert claim_test.tests_of("mine")["longer-warmup-helps"].runs == 16
    with pytest.raises(ConfigError, match="(?s)baseline: must be given.*CONTRIBUTING.md has a whole file"):
        example(("baseline: short\n", ""))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("superior: {better: long, worse: short, margin: 0.01}", "superior:", "predicate = .*must be {NAME"),
        (
            "\n      superior: {better: long, worse: short, margin: 0.01}",
            " superior",
            "predicate = superior: must be",
        ),
        (
            "superior: {better: long, worse: short, margin: 0.01}",
            "all: {superior: {}}",
            "predicate = .*must be",
        ),
        (
            "superior: {better: long, worse: short, margin: 0.01}",
            "basin: {family: warm-up, inside: 3, margin: 0.01}",
            "inside = 3: must be",
        ),
        (
            "superior: {better: long, worse: short, margin: 0.01}",
            "did: {larger: 3, smaller: 4, margin: 0.01}",
            "larger = 3: must be",
        ),
        (
            "superior: {better: long, worse: short, margin: 0.01}",
            "bounded: {arm: [long], below: 1}",
            "arm = .* must be a name",
        ),
        (
            "superior: {better: long, worse: short, margin: 0.01}",
            "basin: {family: , inside: [1, 2], margin: 0.01}",
            "family = null: must be a name",
        ),
        (
            "superior: {better: long, worse: short, margin: 0.01}",
            "below_line: {arm: long, line: 2}",
            "line = 2: needs text",
        ),
        (
            "superior: {better: long, worse: short, margin: 0.01}",
            "bounded: {arm: long, below: .nan}",
            "below = nan: must be a number",
        ),
        ("superior: {better: long, worse: short, margin: 0.01}", "3: {better: long}", "3: unknown predicate"),
        ("margin: 0.01", "margin: {seed_sds: yes}", "margin = .*must be a number or"),
        ("- id: longer-warmup-helps", "- id: [a]", "id = .*needs text"),
        ("    source: my guess", "    3: my guess", "3: unknown key"),
        ("needs: []", "needs:", "needs = null: needs a list"),
        ("needs: []", "needs: long", "needs = long: needs a list"),
        ("metric: val/bpb", "metric: 3", "metric = 3: needs text"),
        (
            "  short: {family",
            "  off: {family",
            "arm False: YAML reads this name as no text. Put it in quotes",
        ),
    ],
)
def test_slips_in_an_ablation_file_are_named(example, old, new, words):
    with pytest.raises(ConfigError, match=words):
        example((old, new))
