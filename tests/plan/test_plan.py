"""Plans at every size without preparing data: settings that never collide, arms that are distinct, claims
that stay true.
"""

import dataclasses

import pytest

from lab.config.compose import Override, compose
from lab.config.strict import ConfigError
from lab.plan import ablation as questions
from lab.plan import planned_arm, planning
from lab.plan.ablation import names
from lab.plan.budget import TrainingText
from lab.store.plan_record import MatchRecord
from tests.paths import THREE_NORMS

SIZES = ("nano", "micro", "small", "base")


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """`plan(name, *overrides)` with a stand-in for prepared data whose fingerprint is its path."""

    def prepared(config, **_):
        return tmp_path, TrainingText(
            str(config.data.path), bytes_per_token=4.0, train_tokens=10**9, tokenizer_hash="t"
        )

    monkeypatch.setattr(planned_arm, "prepared", prepared)
    monkeypatch.setattr(planning, "_reference_lines", lambda baseline, reached: ())
    return lambda name, *overrides, **options: planning.make(
        name, overrides, results=tmp_path, cache=tmp_path, **options
    )


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", names())
def test_every_ablation_plans_at_every_size_with_every_optional_arm(plan, name, size):
    ablation = questions.load(name)
    made = plan(name, f"size={size}", extra_arms=list(ablation.optional_arms))
    arms = made.record.arms
    runs = [run for arm in arms for run in arm.runs.values()]
    assert len(runs) == len(set(runs)), "two arms are one run"
    assert all(abs(arm.mismatch) <= 0.01 for arm in arms)
    assert min(arm.steps for arm in arms) >= 100
    merged = len(ablation.arms) + len(ablation.optional_arms) - len(arms)
    assert merged == sum("same model as arm" in note for note in made.record.notes)


@pytest.mark.parametrize("size", SIZES)
def test_the_arms_of_the_ratio_claims_stand_on_the_side_their_claims_mean(plan, size):
    x = {arm.name: arm.x for arm in plan("ffn-ratio", f"size={size}").record.arms}
    assert all(1 <= x[name] <= 10 for name in ("plain_x1_5", "plain_x4", "plain_x6"))
    assert x["plain_x1_5"] < 2 and x["plain_x32"] > 10
    assert x["plain_x4"] == pytest.approx(4, abs=0.05) and x["gated_8_3"] == pytest.approx(8 / 3, abs=0.05)


def test_settings_tell_different_experiments_apart(plan):
    asked = [
        (),
        ("size=micro",),
        ("size.num_layers=2",),
        ("data.seed=5",),
        ("optimizer.lr=1e-3",),
        ("data=text", "data.path=a"),
        ("data=text", "data.path=b"),
    ]
    settings = [plan("heads", *overrides).record.setting for overrides in asked]
    assert len(set(settings)) == len(asked)
    assert settings[:2] == ["nano-stories-cpu", "micro-stories-cpu"]
    assert plan("heads", hold="none").record.setting != settings[0]
    assert plan("heads", "tracker=none", "engine.workers=1").record.setting == settings[0]


def test_one_baseline_serves_every_ablation_that_shares_it(plan):
    made = {name: plan(name).record for name in ("heads", "stability")}
    baselines = [record.baseline.runs for record in made.values()]
    shared = set.intersection(*(set(runs) for runs in baselines))
    assert len(shared) >= 3
    assert all(len({runs[seed] for runs in baselines}) == 1 for seed in shared)


def test_one_trunk_with_its_branches_serves_every_ablation_over_horizons(plan):
    one, *others = (
        plan(name).record.baseline for name in ("activation", "norm-placement", "norm", "bias", "block")
    )
    assert all(one.trunks == other.trunks and one.branches == other.branches for other in others)


def test_paths_of_this_machine_stay_out_of_the_record(plan):
    record = plan("heads", "data=text", "data.path=/home/someone/book.txt").record
    assert "someone" not in str(record) and "data.path=PATH" in record.overrides


def write(tmp_path, monkeypatch, text):
    folder = tmp_path / "ablations"
    folder.mkdir()
    (folder / "mine.yaml").write_text(text)
    monkeypatch.setattr(questions, "ABLATIONS", folder)
    monkeypatch.setattr(questions, "ROOT", tmp_path)


GOOD = THREE_NORMS.read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("axis: {key: norm, label: norm, numeric: false}", "axis: x"), "axis = x: needs a group of keys"),
        (("seeds: 3", "seeds: 3\nsedes: 4"), 'sedes: unknown key. Did you mean "seeds"?'),
        (("seeds: 3", "seeds: 3\nseeds: 4"), "not valid YAML"),
        (("solve: none", "solve: dff"), "match.solve = dff: unknown. Known: none, d_ff, width"),
        (("hold: body_parameters", "hold: body"), "match.hold = body: unknown"),
        (
            ("hold: body_parameters, solve: none", "hold: bytes, solve: d_ff"),
            "match.solve = d_ff: no shape changes the bytes that training reads. Write none.",
        ),
        (("tolerance: 0.01", "tolerance: -1"), "match.tolerance = -1: must be at least 0 and below 1"),
        (("baseline: rmsnorm", "baseline: rms"), "baseline = rms: is not one of the arms"),
        (("numeric: false", "numeric: true"), "axis.key = norm: unknown"),
        (("claims: []", "claims: [{id: a}]"), "must be given"),
        (("label: LayerNorm", 'label: "{y}"'), 'label = {y}: only "{x}" may stand in braces'),
        (
            ("seeds: 3", "seeds: 3\nside_by_side: [[none, rmsnormm]]"),
            'side_by_side[0] = rmsnormm: is no arm or family of the default arms. Did you mean "rmsnorm"?',
        ),
        (("seeds: 3", "seeds: 3\nside_by_side: [[none, none]]"), "must be two different arms or families"),
        (
            ("seeds: 3", "seeds: 3\nside_by_side: [none, norm]"),
            "side_by_side[0] = none: needs a list.",
        ),
        (
            ("none: {family: norm, label: none, overrides: [norm=none]}", "none: 3"),
            "arms.none = 3: needs a group of keys",
        ),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_a_faulty_ablation_file_is_refused_with_the_fix(tmp_path, monkeypatch, change, message):
    write(tmp_path, monkeypatch, GOOD.replace(*change))
    with pytest.raises(ConfigError) as error:
        questions.load("mine")
    assert message in str(error.value)


def test_an_arm_that_misses_the_match_is_refused(plan, monkeypatch):
    matching(monkeypatch, solve="none")
    with pytest.raises(
        ConfigError, match=r"arm plain_x32: body_parameters differ from the baseline's by \+\d"
    ):
        plan("ffn-ratio")
    assert plan("ffn-ratio", hold="none").record.match.what == "none"


def matching(monkeypatch, **values):
    load = planning.load

    def changed(name):
        ablation = load(name)
        return dataclasses.replace(ablation, match=dataclasses.replace(ablation.match, **values))

    monkeypatch.setattr(planning, "load", changed)


def test_depth_and_flops_are_matched_to_within_the_tolerance(plan, monkeypatch):
    matching(monkeypatch, hold="flops_per_token", solve="depth")
    record = plan("activation").record
    assert record.match == MatchRecord(what="flops_per_token", solve="depth", tolerance=0.01)
    counted = {arm.name: arm.counts.flops_per_token for arm in record.arms}
    for arm in record.arms:
        assert arm.mismatch == counted[arm.name] / counted[record.baseline.name] - 1
        assert abs(arm.mismatch) <= 0.01


def test_text_is_held_by_a_budget_that_counts_it(plan, monkeypatch):
    """With as many bytes a token everywhere nothing is missed; with half as many, a budget in tokens reads
    half the text.
    """
    matching(monkeypatch, hold="bytes", solve="none", tolerance=1e-3)
    assert {arm.mismatch for arm in plan("vocab").record.arms} == {0.0}
    coarse = iter([4.0, 4.0, 2.0, 4.0])  # bytes a token of each vocabulary

    def prepared(config, **_):
        return plan, TrainingText("f", bytes_per_token=next(coarse), train_tokens=10**9, tokenizer_hash="t")

    monkeypatch.setattr(planned_arm, "prepared", prepared)
    with pytest.raises(
        ConfigError, match=r"bytes differ from the baseline's by \+100.0% \(limit 0.1%\). Choose budget=bytes"
    ):
        plan("vocab", "budget=tokens")


def test_a_mismatch_that_the_file_does_not_allow_for_is_limited_to_a_hundredth(tmp_path, monkeypatch):
    write(tmp_path, monkeypatch, GOOD.replace(", tolerance: 0.01", ""))
    assert questions.load("mine").match.tolerance == 0.01


def test_seeds_are_paired_by_the_ablation_alone(plan):
    with pytest.raises(ConfigError, match="an ablation pairs its own seeds. Use --seeds"):
        plan("norm", "seed=7")


def test_the_budget_in_bytes_follows_the_size():
    for size in SIZES:
        config = compose([Override(f"size={size}"), Override("budget=bytes")])
        assert config.budget.amount == pytest.approx(4 * config.size.tokens, rel=0.05)
