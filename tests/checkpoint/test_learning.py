"""What a run learnt, skill by skill: the parts are those of its summary and sum to its whole loss."""

import math

import pytest

from lab.checkpoint.learning import compare
from lab.commands import places
from lab.config.strict import ConfigError
from lab.data.ngram import baselines
from lab.data.prepare import prepare
from tests.checkpoint.test_texts import QUICK


@pytest.fixture(scope="module")
def run(lab):
    before = set(places.store().ids())
    assert lab("train", *QUICK, "optimizer.lr=1e-3", "evaluation.documents=8") == 0
    (name,) = set(places.store().ids()) - before
    return name


@pytest.mark.slow
def test_skills_sum_to_the_excess_of_run_and_of_counting(run, tmp_path):
    columns, rows = compare([f"mine={run}"], places.store(), cache=places.CACHE, figure=tmp_path / "f.png")
    *skills, total = rows
    record = places.store().record(run)
    assert columns[:3] == ["id", "words", "floor"] and columns[4:] == ["mine", "mine right"]
    assert {row["id"] for row in skills} == record.summary.skills.keys()
    measured = record.summary.measured
    bits = sum(row["words"] * row["mine"] for row in skills)
    assert bits == pytest.approx(measured["val/excess_bpb"] * measured["val/exact_bytes"], rel=1e-4)
    assert total["words"] * total["mine"] == pytest.approx(bits)
    assert math.fsum(row["words"] * row["floor"] for row in skills) == pytest.approx(
        total["words"] * total["floor"]
    )
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


def test_counting_is_the_order_with_the_least_loss(run):
    columns, rows = compare([run], places.store(), cache=places.CACHE, figure=None)
    config = places.store().config(run)
    folder = prepare(config.data, config.vocab, cache=places.CACHE, progress=None)
    lines = baselines(folder, documents=8, context_length=32)
    best = sorted(lines, key=lambda line: line.nats_per_token)[0]
    assert columns[3] == f"{best.order}-gram"
    assert {row["id"]: row[columns[3]] for row in rows[:-1]} == best.skills


def test_runs_whose_skills_are_not_known_are_named(run):
    with pytest.raises(ConfigError) as caught:
        compare(["zz", f"a={run}", "b=yy"], places.store(), cache=places.CACHE, figure=None)
    assert [problem.partition(" (")[0] for problem in caught.value.problems] == ["zz", "yy"]


def test_the_command_takes_the_beginning_of_an_id(run, lab, capsys):
    assert lab("skills", f"mine={run[:5]}", "--json") == 0
    assert "mine right" in capsys.readouterr().out
    assert lab("skills", "zz", f"{run[:5]}", "b=yy") == 2
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(": no such run.")[0] for line in told] == [
        "error: zz (command line)",
        "error: yy (command line)",
    ]
