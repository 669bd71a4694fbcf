"""The sentences that every report shares: captions of figures and tables, and how to read it."""

from __future__ import annotations

from lab.report import side_by_side, spike_tables
from lab.store.spikes import LOOK_BACK

CAPTIONS = {
    "effects": (
        "Where the effects are going",
        "A panel a claim: the difference that it is about, paired by seed, at each horizon, with its 95 % "
        "interval over seeds; broken lines are the margin. Hollow points are what a line goes through at the "
        "last three horizons, the excess over the exact floor where the corpus has one, and where it leads "
        "three doublings on. Persists: one sign at all three and there. Fading: the last point may be 0. "
        "Reversing: it has the other sign. Budget-bound: two horizons disagree.",
    ),
    "horizons": (
        "Losses over horizons",
        "Left: bits per byte at the end of each branch; broken grey lines are references. Right: the "
        "difference to the baseline arm, paired by seed.",
    ),
    "learning": (
        "What is learnt when",
        "A panel a skill: what the words that test it cost beyond their exact surprisal at the end of each "
        "branch, in bits a word, mean over seeds; 0 is a perfect model.",
    ),
    "final": (
        "Where the arms end",
        "Top: final bits per byte, mean over seeds and the single seeds, against the value that results "
        "from matching; broken grey lines are references, the entropy of the corpus among them where it "
        "is known and one for all arms (over each story from its start, as far as a row reaches). Bottom: "
        "relative difference to the baseline arm, paired by seed, with its 95 % interval. Lines join arms "
        "of one family and carry no fit. Diverged runs are in the table, not here.",
    ),
    "curves": (
        "Loss curves",
        "Left: validation bits per byte. Right: the same as a gap to the baseline arm at equal tokens. "
        "Lines are means, bands reach from the lowest to the highest seed.",
    ),
    "gradients": (
        "Gradient norm before clipping",
        "One panel an arm, one line a seed, thinned to 60 points with the spikes kept; grey lines are the "
        "other arms.",
    ),
    "side_by_side": (
        "Side by side",
        "A pair of arms a row, the first in blue, the second in orange. Lines are seeds, thinned, with "
        "the largest 20 spikes of a run kept; counts are of all spikes. So that a run that diverges "
        f"flattens no other, the axes end at {side_by_side.TOP_LOSS:g} times the lower first loss and "
        f"{side_by_side.TOP_NORM:,.0f} times the higher median norm; in the panels by arm at "
        f"{side_by_side.TOP_NORM:,.0f} times the median of all.",
    ),
    "rates": (
        "Loss against the learning rate",
        "Final loss of every arm at every rate of the search, mean over its tuning seeds, which judge "
        "nothing; dots are seeds. A rate between the marked ones is an arm's own, where a parabola "
        "through its best loss there and those beside it was lowest. Open markers are diverged runs, "
        "which count as the loss before training. The ring marks the rate an arm is judged at.",
    ),
    "metrics": (
        "The other metrics of the claims",
        "Left: seeds and their mean. Right: the difference to the baseline, mean and 95 % interval. Runs "
        "that diverged, or don't know a metric, are counted and not drawn.",
    ),
    "skills": (
        "By skill",
        "Left: what the words that test a skill cost beyond their exact surprisal, in bits a word, mean "
        "over seeds; 0 is a perfect model. Middle: the same against the baseline's, paired by seed, with "
        "95 % intervals. Right, where it was measured: how often the true continuation is likelier than "
        "one that the grammar forbids there.",
    ),
}
BY_ARM = (
    "Scores are means over the runs that finished or diverged. First mover: of all statistics of layers, "
    f"the one that rose by the rule of spikes first in the {LOOK_BACK} steps up to a spike; of several at "
    "one step the one that rose furthest. With so many statistics some rise by chance: the same search "
    "before quiet steps says how often, and only what is more than that speaks of spikes. Of spikes "
    f"within {LOOK_BACK} steps of each other that comparison counts the first. Layers count from 0."
)
ONE_BY_ONE = (
    f"The {spike_tables.LARGEST} with the highest scores among those that records keep, 20 a run. What "
    "rose first need not be the cause."
)
READING = (
    "Bits per byte is the cross-entropy of the validation text over its UTF-8 bytes; lower is better. "
    "Every arm is scored on the same documents, whole, so it compares across tokenizers. A document "
    "longer than a row continues in further rows without the text before them, so where tokens are longer "
    "less context is lost.",
    "Seeds are paired: in arms of one vocabulary and one context length a seed means the same data in the "
    "same order. Another vocabulary or context length cuts the same documents into other rows, and the "
    "same seed puts those in an order of their own. Differences are taken within a seed first, so what a "
    "seed does to all arms alike cancels.",
    "Reproduced, contradicted and too small to matter are each wrong, for any claim of a family, in at "
    "most 5 % of experiments. A better-than claim is tested against no difference, and its margin applies "
    "to the mean alone. Too small to matter: the difference is shown to lie inside the margin fixed "
    "beforehand. Inconclusive: these seeds can't tell, and the smallest effect they would find in four of "
    "five experiments is given. A diverged run enters as its loss before training.",
    "A spike is a step whose gradient norm or loss lies k standard deviations above the mean of the steps "
    "before it; the score is the share of such steps.",
)
