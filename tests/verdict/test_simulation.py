"""The error rates that the protocol promises, by made-up experiments at the boundary of each claim."""

import pytest

from lab.verdict import simulation

pytestmark = pytest.mark.slow

# A rate of 5 % has a standard error of 0.4 % at 3,000 experiments. Those whose rate must be 5 % itself come
# first, then
# those close to it; the others reach discrete levels further below and need fewer. The table in
# docs/method.md has more of all.
AT_THE_LEVEL = {("SUP", (3,)), ("SUP", (4, 8)), ("EQ", (3,)), ("EQ", (4, 8))}
CLOSE = {
    ("NI", (3,)),
    ("DID", (4,)),
    ("BASIN", (3,)),
    ("below a line", (3,)),
    ("SUP", (8,)),
    ("EQ", (8,)),
    ("NI", (8,)),
}
LEFT_OUT = {(name, (seeds,)) for name in ("SUP", "EQ") for seeds in (4, 5)}
CASES = [case for case in simulation.cases() if (case.name, case.looks) not in LEFT_OUT]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} {case.seeds}")
def test_wrong_verdicts_stay_at_their_level(case):
    key = (case.name, case.looks)
    experiments = 3000 if key in AT_THE_LEVEL else 2000 if key in CLOSE else 600
    row = simulation.run(case, experiments=experiments, powered=25, seed=2)
    assert row.wrong <= 0.06
    if key in AT_THE_LEVEL:
        assert row.wrong == pytest.approx(0.05, abs=0.01)
    assert row.power > 0.6 and row.mean_seeds <= case.looks[-1]


def test_any_wrong_claim_of_a_family_stays_at_its_level():
    assert simulation.families(experiments=1000, seed=2) <= 0.06


def test_the_table_has_a_row_a_case():
    rows = [simulation.Rates(case, 0.05, 0.8, 4.0) for case in CASES]
    text = simulation.table(rows, experiments=10, family=0.05)
    assert text.count("| 5.0 % |") == len(rows) and "| 80 % (mean of 4.0 seeds) |" in text
