"""The ledger: 114 rows, states by rule, the same bytes from the same files, and a worklist that is cheap
first.
"""

import dataclasses
import json
import re

import pytest
import yaml

from lab.config.strict import ConfigError
from lab.lecture import claim_test, core_minutes, ledger, register
from lab.lecture import ledger_page as page
from lab.lecture.finding import Finding, judged_sweeps, of_sweep
from lab.lecture.register import RegisteredClaim
from lab.store import exact_check, plan_record, registration
from lab.store.exact_check import ExactCheck
from lab.store.identity import PROTOCOL
from lab.verdict import outcomes
from lab.verdict.direction import direction
from tests.paths import ROOT
from tests.published_sweep import REGISTERED, publish
from tests.verdict.test_direction import along

RESULTS = ROOT / "results"


def check(claim, *, holds=True, notes=None):
    return ExactCheck(claim, "a", expected=1, measured=1, holds=holds, note="", notes=notes)


def registered(kind, **fields):
    return RegisteredClaim("x", says="", notes="", papers=(), kind=kind, **fields)


@pytest.fixture(scope="module")
def committed():
    """The ledger of the committed results."""
    return ledger.load(RESULTS)


@pytest.fixture(scope="module")
def rows(committed):
    return committed.rows


def row_of(results, claim):
    return next(row for row in ledger.load(results).rows if row.id == claim)


def test_every_claim_of_the_lecture_has_a_row(rows):
    assert len(rows) == len({row.id for row in rows}) == 114
    for row in rows:
        assert row.state in outcomes.STATES and row.kind in register.KINDS
        assert all(isinstance(text, str) for text in (row.says, row.notes)) and row.papers
        for paper in row.papers:
            assert re.fullmatch(r"\d{4}\.\d{5}|[a-z0-9.-]+(/[\w./-]+)?", paper.where), row.id
            assert 2014 <= paper.year <= 2026
    assert sum(bool(row.source) for row in rows) >= 23  # where notes and sources differ


def test_arxiv_months_fit_their_years(rows):
    """An identifier begins with the year and month of its first version."""
    for row in rows:
        for paper in row.papers:
            if paper.where[0].isdigit():
                assert int("20" + paper.where[:2]) in (paper.year, paper.year - 1), (
                    row.id,
                    paper,
                )
                assert 1 <= int(paper.where[2:4]) <= 12


def test_every_trained_claim_states_its_core_minutes(rows):
    for row in rows:
        assert (row.core_minutes.estimate is not None) == (row.kind == "trained"), row.id


def test_the_bar_of_computed_and_measured_claims(rows):
    decided = [row for row in rows if row.state in ("reproduced", "contradicted")]
    assert sum(row.kind == "exact" for row in decided) >= 24
    measured = [row for row in rows if row.kind in ("init", "cost")]
    assert len(measured) == 6 and all(
        row.state not in (outcomes.NOT_RUN, outcomes.BEYOND) for row in measured
    )


def test_a_paper_that_an_ablation_cites_stands_in_the_register(rows):
    by_id = {row.id: row for row in rows}
    parts = {part: entry.id for entry in register.register() for part in entry.rests_on}
    for path in (ROOT / "ablations").glob("*.yaml"):
        for claim in yaml.safe_load(path.read_text())["claims"]:
            name = parts.get(claim["id"], claim["id"])
            if name in by_id:
                known = {paper.where for paper in by_id[name].papers}
                cited = set(re.findall(r"\d{4}\.\d{5}", claim["source"]))
                assert not cited or cited & known, (path.stem, claim["id"], cited)


def test_the_committed_ledger_is_what_the_files_say(committed, tmp_path):
    """Run `lab claims --write` and commit where this fails."""
    path = page.write(committed, tmp_path)
    assert path.read_text() == (RESULTS / path.name).read_text()


def test_the_results_in_words_are_those_of_the_ledger(rows):
    lines = re.findall(r"^\| (.+?) \| (.+?) \| .+ \|$", (ROOT / "docs/results.md").read_text(), re.MULTILINE)
    told = {name: verdict for claim, verdict in lines for name in re.findall(r"`([a-z0-9-]+)`", claim)}
    claims = {claim.id: claim for claim in register.register()}

    def as_published(row):
        """The state that the sweeps of protocol 1 gave."""
        return ledger.state(claims[row.id], [dataclasses.replace(e, protocol=PROTOCOL) for e in row.evidence])

    trained = {row.id: as_published(row) for row in rows if row.kind == "trained" and row.evidence}
    shared = {name: verdict for name, verdict in told.items() if name in trained}
    assert len(shared) >= 14
    for name, verdict in shared.items():
        assert verdict.startswith(trained[name]), name


def test_links_of_the_ledger_lead_somewhere():
    text = (RESULTS / "LEDGER.md").read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert (RESULTS / target).exists(), target
    anchors = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert anchors <= set(re.findall(r"^### (.+)$", text, re.M))


def test_links_of_the_page_lead_to_what_the_site_has(committed):
    """The site has report.html of each published folder, in place of REPORT.md, and the records."""
    linked = set(re.findall(r'href="([^"#]+)"', page.of_site(committed)))
    own = {link for link in linked if not link.startswith("https://")}
    assert own >= {"exact.jsonl", "ffn-ratio/nano-stories-cpu/report.html"}
    assert not [link for link in own if link.endswith((".md", ".png"))]
    for link in own - {"report.css", "reports.html", "ledger.html"}:
        assert (RESULTS / link.replace("report.html", "REPORT.md")).exists(), link


def test_state_of_computed_claims(tmp_path):
    def found(*notes, holds=True):
        exact_check.save([check("rope-relative-exact", notes=n, holds=holds) for n in notes], tmp_path)
        return row_of(tmp_path, "rope-relative-exact")

    assert found("holds", None).state == "reproduced"
    assert found("holds", "fails").state == "reproduced"
    assert found("holds", "fails").as_printed == "holds in part"
    assert found("fails", None).state == "contradicted"
    assert found(None).state == "reproduced" and found(None).as_printed is None
    assert found("holds", holds=False).state == "contradicted"
    assert row_of(tmp_path, "sine-definition").state == "not run"


def test_a_trained_claim_is_not_decided_by_its_computed_part(tmp_path):
    exact_check.save([check("ffn-gated-1p5h", notes="fails")], tmp_path)
    row = row_of(tmp_path, "ffn-gated-1p5h")
    assert row.state == "not run" and row.as_printed == "fails" and len(row.evidence) == 1


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        (["reproduced"], "reproduced"),
        (["not run"], "not run"),
        (["inconclusive", "contradicted"], "contradicted"),
        (["reproduced", "contradicted"], "inconclusive"),
        (["inconclusive"], "inconclusive"),
        (["too small to matter", "not run"], "too small to matter"),
    ],
)
def test_state_over_settings(tmp_path, outcomes, state):
    for number, outcome in enumerate(outcomes):
        publish(tmp_path, "rms-vs-ln-loss", outcome, setting=f"nano-data{number}-cpu")
    assert row_of(tmp_path, "rms-vs-ln-loss").state == state


def test_an_override_is_no_further_chance_of_a_decision(tmp_path):
    publish(tmp_path, "rms-vs-ln-loss", "reproduced", setting="nano-stories-cpu-1", overrides=["seed=1"])
    assert row_of(tmp_path, "rms-vs-ln-loss").state == "reproduced"
    publish(tmp_path, "rms-vs-ln-loss", "inconclusive", overrides=["tracker=none"])
    row = row_of(tmp_path, "rms-vs-ln-loss")
    assert row.state == "inconclusive" and len(row.evidence) == 2


def test_a_claim_beyond_small_models_says_why_until_it_has_a_verdict(tmp_path):
    row = row_of(tmp_path, "mtp-aux-loss")
    assert row.state == "not measurable at this size" and "3B" in row.why
    publish(tmp_path, "mtp-aux-loss", "contradicted")
    assert row_of(tmp_path, "mtp-aux-loss").state == "contradicted"


def test_evidence_names_what_it_rests_on(tmp_path):
    publish(tmp_path, "rms-vs-ln-loss", "reproduced", seconds=90.0)
    row = row_of(tmp_path, "rms-vs-ln-loss")
    (item,) = row.evidence
    assert (item.n, item.size, item.data, item.device) == ("2 seeds", "nano", "stories", "a CPU")
    assert item.commit == "0abc, 1abc" and item.figures == ("figures/final.svg",)
    assert item.confounds == ("one rate for all",)
    assert row.core_minutes.spent == pytest.approx(4 * 90 / 60)


def test_a_claim_outside_the_register_is_shown(tmp_path):
    publish(tmp_path, "a-claim-of-its-own", "reproduced", why="<b>so</b>")
    found = ledger.load(tmp_path)
    assert [item.claim for item in found.beyond_register] == ["a-claim-of-its-own"]
    for text in (page.write(found, tmp_path).read_text(), page.of_site(found)):
        assert "a-claim-of-its-own" in text and "<b>so" not in text


def test_hostile_text_is_escaped(tmp_path):
    publish(tmp_path, "rms-vs-ln-loss", "reproduced", why='<script>alert(1)</script> | [x](javascript:1) "')
    found = ledger.load(tmp_path)
    markdown, html = page.write(found, tmp_path).read_text(), page.of_site(found)
    assert "<script>alert" not in html and "&lt;script&gt;alert" in html
    assert "<script>" not in markdown and not re.search(r"(?<!\\)\]\(javascript", markdown)
    assert "default-src 'none'" in html


def test_one_picture_has_every_effect_over_horizons_and_none_is_drawn_before(tmp_path):
    publish(tmp_path, "rms-vs-ln-loss", "reproduced")
    known = ledger.load(tmp_path)
    assert page.picture(known) is None and "None of the" in page.write(known, tmp_path).read_text()
    going = direction(along(0.05, 0.04, 0.03, 0.03, 0.03))
    row = next(row for row in known.rows if row.id == "rms-vs-ln-loss")
    judged = dataclasses.replace(
        row.evidence[0],
        protocol=PROTOCOL,
        horizon=9,
        direction=going.name,
        course=going,
        margins_percent=(1.0,),
    )
    told = dataclasses.replace(
        row, evidence=(judged,), state="reproduced", horizon=9, direction=going.name, protocol=PROTOCOL
    )
    known = dataclasses.replace(known, rows=tuple(told if one is row else one for one in known.rows))
    [course] = page.courses(known)
    assert (course.id, course.said, course.margins) == ("rms-vs-ln-loss", "reproduced, persists", (0.01,))
    assert "(LEDGER.svg)" in page.write(known, tmp_path).read_text()
    assert b"rms-vs-ln-loss" in (tmp_path / "LEDGER.svg").read_bytes()
    assert 'src="LEDGER.svg"' in page.of_site(known)


def test_the_same_files_give_the_same_bytes(tmp_path):
    publish(tmp_path, "rms-vs-ln-loss", "reproduced")
    exact_check.save([check("rope-relative-exact")], tmp_path)
    first, second = (
        (page.write(found, tmp_path).read_bytes(), page.of_site(found))
        for found in (ledger.load(tmp_path), ledger.load(tmp_path))
    )
    assert first == second


def test_estimates_count_flops_as_the_model_does():
    from lab.lecture.exact import models
    from lab.plan.budget import counts

    shape = dict(
        d_model=96, num_layers=4, num_heads=3, head_dim=32, d_ff=256, vocab_size=1024, context_length=256
    )
    assert core_minutes.flops("nano") == counts(models.run_config(**shape)).flops_per_token * 307_200


def test_an_estimate_is_runs_times_the_published_pace(tmp_path):
    assert row_of(tmp_path, "rms-vs-ln-loss").core_minutes.estimate is None
    publish(tmp_path, "act-ungated-order", "reproduced", seconds=30.0)  # 1e6 FLOPs a token, 307,200 tokens
    pace = 30.0 / (1e6 * 307_200)
    claim = registered("trained", plan=register.RoughPlan(size="nano", runs=7))
    expected = 7 * core_minutes.flops("nano") * pace / 60
    found = core_minutes.estimate(claim, None, ledger.load(tmp_path).pace)
    assert found == pytest.approx(expected, rel=0.05)


@pytest.mark.slow
def test_the_commands(capsys):
    from lab import cli

    assert cli.main(["claims", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 114 and all(row["id"] and row["state"] for row in rows)
    carried = {"outcome", "direction", "horizon", "protocol", "registration"}
    assert all(carried <= row.keys() for row in rows)
    assert cli.main(["claims", "--todo", "--json"]) == 0
    assert all(row["id"] and row["state"] == "open" for row in json.loads(capsys.readouterr().out))
    assert cli.main(["claims"]) == 0
    assert "dff-ratio-basin" in capsys.readouterr().out


def finding(claim, kind, outcome):
    conditions = () if kind == "trained" else None
    protocol = PROTOCOL if kind == "trained" else None
    return Finding(claim, kind, outcome, why="", where="", conditions=conditions, protocol=protocol)


def test_state_rule_by_hand():
    timed = registered("cost")
    exact, cost = (finding("x", kind, "reproduced") for kind in ("exact", "cost"))
    assert ledger.state(timed, [exact]) == "not run"  # the count alone says nothing about time
    assert ledger.state(timed, [exact, cost]) == "reproduced"
    slower = dataclasses.replace(cost, outcome="inconclusive")
    assert ledger.state(timed, [exact, slower]) == "inconclusive"


@pytest.mark.parametrize(
    ("own", "part", "against", "state"),
    [
        ("reproduced", None, None, "reproduced"),
        ("reproduced", "reproduced", None, "reproduced"),
        ("reproduced", "contradicted", None, "contradicted"),
        ("reproduced", "inconclusive", None, "inconclusive"),
        ("inconclusive", "reproduced", None, "inconclusive"),
        ("contradicted", "reproduced", "contradicted", "contradicted"),
        ("reproduced", None, "reproduced", "contradicted"),
        ("reproduced", None, "contradicted", "reproduced"),
        ("reproduced", None, "too small to matter", "reproduced"),
        ("inconclusive", None, "inconclusive", "inconclusive"),
        (None, "reproduced", None, "not run"),
    ],
)
def test_a_row_holds_where_all_that_it_says_holds(own, part, against, state):
    claim = registered("trained", parts=("y",), against=("z",))
    outcomes = {"x": own, "y": part, "z": against}
    evidence = [finding(name, "trained", outcome) for name, outcome in outcomes.items() if outcome]
    assert ledger.state(claim, evidence) == state


def test_a_row_says_where_its_main_statement_holds_alone(tmp_path):
    publish(tmp_path, "norm-pre-post-final-quality", "reproduced")
    assert row_of(tmp_path, "norm-pre-post-final-quality").alone is None
    publish(tmp_path, "norm-pre-post-final-deep", "contradicted", ablation="other")
    row = row_of(tmp_path, "norm-pre-post-final-quality")
    assert (row.state, row.alone) == ("contradicted", "reproduced")
    text = page.markdown(page.page(ledger.Ledger((row,), (), None)))
    assert "contradicted; its main statement alone is reproduced |" in text


def test_claims_that_a_row_rests_on_are_claims_of_ablations():
    known = claim_test.tested().keys()
    for entry in register.register():
        assert known >= set(entry.rests_on[1:]), entry.id


REGISTER = """
section: Norms
order: 1
claims:
  - id: x
    says: it is so
    notes: 001 1
    papers: [[Zhang and Sennrich, 2019, "1910.07467"]]
    kind: exact
    against: [y]
"""


@pytest.mark.parametrize(
    ("written", "changed", "told"),
    [
        ("against:", "againts:", 'claims[0].againts: unknown key. Did you mean "against"?'),
        ("    says: it is so\n", "", "claims[0].says: must be given."),
        (', "1910.07467"', "", "must be [authors, year, arXiv id or address]."),
        ('"1910.07467"', "1910.07467", "claims[0].papers[0].where = 1910.07467: needs text."),
    ],
)
def test_the_register_is_read_strictly(written, changed, told, tmp_path, monkeypatch):
    """An arXiv id without quotes is a number to YAML, and 2010.04240 would lose its last digit."""
    monkeypatch.setattr(register, "FOLDER", tmp_path)
    (tmp_path / "norms.yaml").write_text(REGISTER)
    assert [claim.id for claim in register.sections.__wrapped__()[0].claims] == ["x"]
    (tmp_path / "norms.yaml").write_text(REGISTER.replace(written, changed))
    with pytest.raises(ConfigError, match=re.escape(told)) as refused:
        register.sections.__wrapped__()
    assert str(refused.value).startswith("ablations/ledger/norms.yaml: ")


def test_what_protocol_1_found_is_shown_and_decides_nothing(tmp_path):
    publish(tmp_path, "rms-vs-ln-loss", "contradicted", protocol=1)
    row = row_of(tmp_path, "rms-vs-ln-loss")
    assert (row.state, row.protocol) == ("not run", None)
    assert row.why == "Protocol 1 found it contradicted at 0.3 M tokens, nano on stories: because"
    publish(tmp_path, "rms-vs-ln-loss", "reproduced", ablation="another", tokens=4_915_200)
    assert row_of(tmp_path, "rms-vs-ln-loss").state == "reproduced"


def test_a_row_that_asks_something_else_than_was_registered_is_open_again(tmp_path, monkeypatch):
    """What a row says or rests on could otherwise be moved after an outcome, without publishing anything."""
    publish(tmp_path, "rms-vs-ln-loss", "reproduced")
    before = row_of(tmp_path, "rms-vs-ln-loss")
    assert before.state == "reproduced" and before.evidence[0].outdated == ()
    rows = [
        dataclasses.replace(claim, parts=("z-loss",)) if claim.id == "rms-vs-ln-loss" else claim
        for claim in register.register()
    ]
    monkeypatch.setattr("lab.lecture.finding.register", lambda: rows)
    after = row_of(tmp_path, "rms-vs-ln-loss")
    assert (after.state, after.protocol) == ("not run", None)
    assert after.evidence[0].outdated == ("rms-vs-ln-loss",)
    told = "nano on stories, 0.3 M tokens, was reproduced when the row asked something else: because"
    assert after.why == told
    assert "which asked something else of rms-vs-ln-loss" in page.markdown(page.page(ledger.load(tmp_path)))


def test_a_claim_that_moved_in_its_file_since_it_was_registered_is_open_again(tmp_path):
    """As its margin; another ablation of the same claim has a text of its own."""
    claim, ablation = "zloss-heavy-confidence", "confidence"
    assert claim_test.tested()[claim].ablation == ablation
    publish(tmp_path, claim, "reproduced", ablation=ablation)
    folder = tmp_path / ablation / "nano-stories-cpu"
    plan_record.save(dataclasses.replace(plan_record.load(folder / "plan.json"), ablation=ablation), folder)

    def outdated():
        return [one.outdated for judged in judged_sweeps(tmp_path) for one in of_sweep(judged)]

    assert outdated() == [()]
    moved = dataclasses.replace(registration.load(folder), claims={claim: "0" * 64})
    registration.save(moved, folder)
    [rows] = outdated()
    assert rows and all(claim in row.rests_on for row in register.register() if row.id in rows)
    plan_record.save(dataclasses.replace(plan_record.load(folder / "plan.json"), ablation="other"), folder)
    assert outdated() == [()]


def test_a_row_speaks_of_the_sweep_that_came_to_its_state(tmp_path):
    """A longer one on other data that is still open lends it neither tokens nor direction."""
    publish(tmp_path, "rms-vs-ln-loss", "reproduced", tokens=1_228_800, direction="persists")
    publish(
        tmp_path,
        "rms-vs-ln-loss",
        "inconclusive",
        setting="nano-tinystories-cpu",
        tokens=4_915_200,
        direction="budget-bound",
    )
    row = row_of(tmp_path, "rms-vs-ln-loss")
    assert (row.outcome, row.horizon, row.registration) == ("reproduced, persists", 1_228_800, REGISTERED)


def test_outcomes_of_protocol_1_beyond_the_register_say_so(tmp_path):
    publish(tmp_path, "a-claim-of-its-own", "reproduced", protocol=1)
    found = page.page(ledger.load(tmp_path))
    told = "a-claim-of-its-own: reproduced (nano on stories, 0.3 M tokens, protocol 1). because"
    assert told in page.markdown(found)


def test_rows_whose_published_outcome_was_wrong_say_what_was_and_what_replaces_it(rows):
    """The five of evidence protocol 2; one is a part of its row."""
    by_id = {row.id: row for row in rows}
    for name, words in (
        ("norm-post-lr-range", "artefact"),
        ("norm-pre-post-final-quality", "norm-pre-post-final-deep"),
        ("rope-vs-absolute-loss", "first wording back"),
        ("dff-large-not-overfit", "dff-large-training-loss"),
        ("softcap-attn-lr", "QK-norm alone"),
    ):
        row = by_id[name]
        assert words in row.corrected and row.state == "not run", name
        assert row.corrected.strip() in page.markdown(page.page(ledger.Ledger((row,), (), None))), name


def test_a_row_reads_with_the_direction_of_its_effect_and_speaks_of_the_last_horizon(tmp_path):
    """A quick sweep of the same size and text has no say beside a longer one."""
    publish(tmp_path, "rms-vs-ln-loss", "contradicted", setting="nano-stories-cpu-0.6M", tokens=614_400)
    publish(
        tmp_path,
        "rms-vs-ln-loss",
        "reproduced",
        setting="nano-stories-cpu-4.9M-lr",
        tokens=4_915_200,
        direction="fading",
    )
    row = row_of(tmp_path, "rms-vs-ln-loss")
    assert (row.outcome, row.horizon, row.protocol) == ("reproduced, fading", 4_915_200, 2)
    assert "reproduced, fading |" in page.markdown(page.page(ledger.load(tmp_path)))
