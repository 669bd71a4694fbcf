"""Skills over horizons: what is drawn is the mean over seeds of what the branches measured."""

import dataclasses

import pytest

from lab.report import canvas, figures, skill_figures
from lab.store.run_record import SkillSummary
from lab.verdict.evidence import gather
from tests.verdict.climbed import TOKENS, climbed


def taught(words=50):
    """Two arms at three horizons; the excess of a skill is ten times the loss of its run."""
    plain = climbed({"a": [3.0, 2.0, 1.0], "b": [3.5, 2.5, 1.5]})
    records = [
        dataclasses.replace(
            record,
            summary=dataclasses.replace(
                record.ended,
                skills={"facts": SkillSummary(words, floor=1.0, excess=10 * record.ended.bpb, accuracy=None)},
            ),
        )
        for record in plain.run_records.values()
    ]
    return gather(plain.plan, records)


def test_a_line_an_arm_goes_through_the_means_of_its_branches():
    evidence = taught()
    with canvas.styled():
        figure = skill_figures.over_horizons(evidence, figures.looks_of(evidence))
    [panel] = [axes for axes in figure.axes if axes.get_visible()]
    assert panel.get_title(loc="left") == "facts"
    lines = {line.get_label(): line for line in panel.lines}
    assert list(lines["a"].get_xdata()) == list(TOKENS[:3])
    # Seeds 0 to 7 lie 0 to 0.7 % above the level, 0.35 % in the mean.
    assert list(lines["a"].get_ydata()) == pytest.approx([30 * 1.0035, 20 * 1.0035, 10 * 1.0035])


def test_too_few_words_draw_nothing():
    evidence = taught(words=skill_figures.FEWEST_WORDS - 1)
    assert skill_figures.over_horizons(evidence, figures.looks_of(evidence)) is None
