"""Every ablation of the lecture runs from plan to report: two steps of each of its arms, at the size where it is tried first."""

import json
import re

import pytest

from lab import ablation
from lab.ablation import names
from lab.commands import places
from lab.config import ConfigError
from lab.verdict.predicates import PREDICATES

STEPS = [
    "size=nano", "size.context_length=128", "batch.tokens_per_step=256", "evaluation.documents=2", "evaluation.rows=2",
    "evaluation.points=2", "evaluation.choices=0", "evaluation.samples=0", "tracker=none",
]  # fmt: skip
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
    assert lab("sweep", name, *STEPS, *(rich if name == "vocab" else STORIES), "--seeds", "1") == 0
    report = places.ROOT / capsys.readouterr().out.rsplit("report: ", 1)[1].strip()
    for file in ("report.html", "REPORT.md", "verdict.json", "plan.json"):
        assert (report.parent / file).stat().st_size > 200
    assert {"final", "curves", "gradients"} <= {
        path.stem for path in (report.parent / "figures").glob("*.png")
    }
    plan = json.loads((report.parent / "plan.json").read_text())
    assert all(abs(arm["mismatch"]) <= 0.01 for arm in plan["arms"])
    states = {places.store().state(run) for arm in plan["arms"] for run in arm["runs"].values()}
    assert states <= {"finished", "diverged"}  # two steps may end above the unigram entropy


def test_the_example_of_an_ablation_is_one(tmp_path, monkeypatch):
    text = (places.ROOT / "CONTRIBUTING.md").read_text()
    [example] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "mine.yaml").write_text(example)
    monkeypatch.setattr(ablation, "ABLATIONS", tmp_path)
    monkeypatch.setattr(ablation, "ROOT", tmp_path)
    loaded = ablation.load("mine")
    assert len(loaded.arms) == 2 and len(loaded.claims) == 1
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == set(PREDICATES)
    (tmp_path / "mine.yaml").write_text(example.replace("baseline: short\n", ""))
    with pytest.raises(ConfigError, match="(?s)baseline: must be given.*CONTRIBUTING.md has a whole file"):
        ablation.load("mine")
