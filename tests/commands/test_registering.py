"""Rules are written down before the runs that judge, and nothing is published once one has moved."""

import dataclasses

import pytest

from lab.commands import places, registering
from lab.config.strict import ConfigError
from lab.lecture import register as notes
from lab.report import publication
from lab.store import identity, plan_record, registration
from lab.store.run_store import RunStore
from lab.sweep import stages
from tests.sweep.climbing_plan import climbed


@pytest.fixture
def swept(make_climbing, tmp_path, monkeypatch):
    """A sweep over three horizons that has been judged, and what it had at each stage: (title, whether it was
    registered).
    """
    monkeypatch.setattr(places, "RESULTS", tmp_path)
    plan, store, told = make_climbing(horizon=1.2e6), RunStore(tmp_path / "runs"), []
    carry_out = climbed(plan, store, lambda arm, rate, seed, tokens: 1.0 + seed / 1e4, [])

    def watched(part, title):
        told.append((title, registration.load(part.folder) is not None))
        carry_out(part, title)

    done = stages.run(plan, store, watched, search=True, results=tmp_path, register=registering.register)
    done.save()
    return done, told


def test_the_registration_is_there_before_the_first_run_that_judges_and_not_before_the_search(swept):
    done, told = swept
    assert {there for title, there in told if title.startswith("search")} == {False}
    assert [there for title, there in told if not title.startswith("search")] == [True]
    found = registration.load(done.folder)
    assert (found.protocol, found.seeds, found.horizons) == (2, (0, 1, 2, 3), done.record.horizons)
    assert set(found.claims) == {"rms-vs-ln-loss"} == set(found.rows)
    assert set(found.arms) == {"rmsnorm", "layernorm"}


def test_it_travels_into_the_published_folder(swept, tmp_path):
    done, _ = swept
    registered = registering.unmoved(done.record)
    folder = publication.publish(done.record, RunStore(tmp_path / "runs"), tmp_path, registered=registered)
    assert registration.load(folder) == registration.load(done.folder)


def test_a_sweep_without_a_registration_is_not_published(swept):
    done, _ = swept
    (done.folder / registration.NAME).unlink()
    with pytest.raises(ConfigError, match="has no registration"):
        registering.unmoved(done.record)


def test_a_margin_that_moved_is_named(swept, tmp_path):
    done, _ = swept
    path = tmp_path / "ablations/climb.yaml"
    path.write_text(path.read_text().replace("margin: 0.01", "margin: 0.02"))
    with pytest.raises(ConfigError, match="since then moved: claim rms-vs-ln-loss. Restore what moved, or"):
        registering.unmoved(done.record)


def test_a_row_of_the_ledger_that_moved_is_named(swept, monkeypatch):
    done, _ = swept
    rows = [
        dataclasses.replace(row, parts=("act-ungated-order",)) if row.id == "rms-vs-ln-loss" else row
        for row in notes.register()
    ]
    monkeypatch.setattr(notes, "register", lambda: tuple(rows))
    with pytest.raises(ConfigError, match="moved: row of the ledger rms-vs-ln-loss"):
        registering.unmoved(done.record)


def test_a_protocol_that_was_raised_is_named(swept, monkeypatch):
    done, _ = swept
    monkeypatch.setattr(registration, "PROTOCOL", identity.PROTOCOL + 1)
    with pytest.raises(ConfigError, match=r"moved: the protocol \(2, now 3\)"):
        registering.unmoved(done.record)


def test_an_arm_that_moved_is_named(swept):
    done, _ = swept
    arms = tuple(dataclasses.replace(arm, overrides=("norm=none",)) for arm in done.record.arms)
    with pytest.raises(ConfigError, match="moved: arm layernorm; arm rmsnorm"):
        registering.unmoved(dataclasses.replace(done.record, arms=arms))


@pytest.mark.parametrize(
    ("written", "changed", "told"),
    [
        ("overrides: [norm=layernorm]", "overrides: [norm=none]", "moved: arm layernorm. "),
        ("horizons: 5", "horizons: 5\ncommon: [optimizer.eps=1e-6]", "moved: arm layernorm; arm rmsnorm. "),
        ("search: {}", "search: {points: 7}", "moved: the search of learning rates. "),
        ("search: {}", "search: {seeds: [100]}", "moved: the search of learning rates. "),
    ],
)
def test_what_moved_in_the_file_of_the_ablation_is_named(swept, tmp_path, written, changed, told):
    done, _ = swept
    path = tmp_path / "ablations/climb.yaml"
    path.write_text(path.read_text().replace(written, changed))
    with pytest.raises(ConfigError, match=told):
        registering.unmoved(done.record)


def test_claims_of_the_plan_that_differ_from_a_restored_file_are_named(swept):
    """The plan is what a verdict goes by, whatever the file says by now."""
    done, _ = swept
    changed = dataclasses.replace(done.record.claims[0], statement="another")
    with pytest.raises(ConfigError, match="moved: claim rms-vs-ln-loss"):
        registering.unmoved(dataclasses.replace(done.record, claims=(changed,)))


def test_seeds_and_looks_that_moved_are_named(swept):
    done, _ = swept
    more = dataclasses.replace(done.record, seeds=tuple(range(6)), looks=(4, 6))
    with pytest.raises(ConfigError, match="the judging seeds .* the looks"):
        registering.unmoved(more)


def test_a_sweep_with_other_seeds_goes_on_and_says_that_it_cannot_be_published(swept, capsys):
    done, _ = swept
    before = registration.load(done.folder)
    registering.register(dataclasses.replace(done, record=done.record.with_seeds([0, 1])))
    assert "with others the sweep can't be published" in capsys.readouterr().err
    assert registration.load(done.folder) == before
    with pytest.raises(ConfigError, match="the judging seeds"):
        registering.unmoved(done.record.with_seeds([0, 1]))


def test_fewer_seeds_are_those_that_were_registered_where_a_look_ended_the_sweep(swept):
    done, _ = swept
    looked = dataclasses.replace(done.record, looks=(2, 4))
    registration.save(registering.rules_of(looked), done.folder)
    assert registering.unmoved(looked.with_seeds([0, 1])) is not None
    with pytest.raises(ConfigError, match="the judging seeds"):
        registering.unmoved(looked.with_seeds([0, 1, 2]))


def test_the_same_sweep_with_another_claim_stops_before_it_judges_more(swept):
    done, _ = swept
    before = registration.load(done.folder)
    changed = dataclasses.replace(done.record.claims[0], statement="another")
    plan = dataclasses.replace(done, record=dataclasses.replace(done.record, claims=(changed,)))
    with pytest.raises(ConfigError, match="was registered on .* moved: claim rms-vs-ln-loss"):
        registering.register(plan)
    assert registration.load(done.folder) == before


def test_rules_may_move_as_long_as_nothing_was_judged(make_climbing, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(places, "RESULTS", tmp_path)
    plan = make_climbing()
    registering.register(plan)
    changed = dataclasses.replace(plan.record.claims[0], statement="another")
    moved = dataclasses.replace(plan, record=dataclasses.replace(plan.record, claims=(changed,)))
    registering.register(moved)
    assert "registered anew, as nothing was judged yet: claim rms-vs-ln-loss" in capsys.readouterr().err
    assert registration.load(plan.folder).claims == registering.rules_of(moved.record).claims
    registering.register(make_climbing(seeds=6))
    assert registration.load(plan.folder).seeds == (0, 1, 2, 3, 4, 5)


def test_fresh_seeds_are_those_after_all_that_judged_this_setting(swept, make_climbing):
    """A search makes no other setting of it, and another horizon does."""
    same, other = make_climbing(horizon=1.2e6), make_climbing(horizon=0.6e6)
    assert registering.first_fresh_seed(same, searched=True) == 4
    assert registering.first_fresh_seed(same, searched=False) == 4
    assert registering.first_fresh_seed(other, searched=True) == 0
    fresh = make_climbing(horizon=1.2e6, first_seed=4)
    assert fresh.record.seeds == (4, 5, 6, 7) and fresh.record.setting.endswith("-1.2M-s4")


def test_the_same_command_goes_on_with_fresh_seeds_until_a_rule_moves(swept, make_climbing, tmp_path):
    """Or else a sweep that was killed would never end, each time with other seeds."""
    registering.register(make_climbing(horizon=1.2e6, first_seed=4))
    plan = make_climbing(horizon=1.2e6)
    assert registering.first_fresh_seed(plan, searched=False) == 4
    path = tmp_path / "ablations/climb.yaml"
    path.write_text(path.read_text().replace("margin: 0.01", "margin: 0.02"))
    assert registering.first_fresh_seed(make_climbing(horizon=1.2e6), searched=False) == 8


def test_seeds_that_judged_without_a_registration_are_not_fresh(swept, make_climbing):
    done, _ = swept
    (done.folder / registration.NAME).unlink()
    assert registering.first_fresh_seed(make_climbing(horizon=1.2e6), searched=True) == 4


def test_the_registration_that_was_published_holds_in_a_fresh_clone(swept, tmp_path):
    """Published lines serve there as runs, and a claim that moved would go by known outcomes."""
    done, _ = swept
    published = registration.load(done.folder)
    registration.save(published, tmp_path / "climb" / done.record.setting)
    (done.folder / registration.NAME).unlink()
    registering.register(done)
    assert registration.load(done.folder) == published
    changed = dataclasses.replace(done.record.claims[0], statement="another")
    plan = dataclasses.replace(done, record=dataclasses.replace(done.record, claims=(changed,)))
    with pytest.raises(ConfigError, match="since then moved: claim rms-vs-ln-loss"):
        registering.register(plan)
    later = dataclasses.replace(published, date="2027-01-01T00:00:00+00:00")
    registration.save(later, done.folder)
    with pytest.raises(ConfigError, match="was published with a registration of .* this one is of 2027"):
        registering.unmoved(done.record)


def test_a_registration_counts_the_runs_that_had_ended_before_it(swept, capsys):
    """As those that another ablation shares, or all of them where someone took the first one away."""
    done, _ = swept
    assert registration.load(done.folder).ended == 0
    (done.folder / registration.NAME).unlink()
    registering.register(done)
    assert registration.load(done.folder).ended == 2 * 4 * 3  # arms, seeds, horizons
    assert "24 of 24 runs that judge had ended before this registration" in capsys.readouterr().err


def test_what_protocol_1_published_stays(swept, tmp_path):
    done, _ = swept
    folder = tmp_path / "climb" / done.record.setting
    plan_record.save(dataclasses.replace(done.record, protocol=1), folder)
    with pytest.raises(ConfigError, match="judged by protocol 1, and stays"):
        publication.publish(done.record, RunStore(tmp_path / "runs"), tmp_path)
