"""Which number of a run does a claim judge, in which unit do arms differ, and which way is better?

    val/bpb, val/bpb/<language>, val/loss, train/loss    a fraction of the rival's value, lower is better
    val/excess_bpb, excess/<skill>                       bits a byte, bits a word of the skill; lower is better
    accuracy/<skill>                                     share of forced choices that are right; higher is better
    val/entropy                                          of the predictions; a fraction of the rival's value, higher is better
    gap                                                  (val/loss - train/loss) / val/loss, near the end of training
    longer/<k>                                           val/bpb with k times the context over that with one, less 1
    peak/<statistic>                                     the largest of all layers and diagnosed steps
    spikes/<signal>/<score>                              as lab/store/spikes.py scores them; lower is better
    tokens_per_second                                    a fraction; higher is better
    lr/max_stable, lr/width, lr/sensitivity              from the search of learning rates, see lab/verdict/lr_range.py

A diverged run enters as what a model without training has: the loss of its first step, or of a uniform
guess where that was not finite, and chance where it chooses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lab.verdict.stats import Estimate, in_percent

CHANCE = 0.5
GAP_SHARE = 0.1
SCORES = ("events", "score_k4", "score_k7", "p999_over_median")
SIGNALS = ("grad/norm", "train/loss")
LOSSES = ("val/bpb", "val/loss", "val/excess_bpb", "train/loss")
OWN_STEPS = ("spikes/", "tokens_per_second", "peak/")  # where a diverged run counts for the steps it had
SEARCHED = "lr/"  # metrics of the learning-rate search, a value for each of its seeds


@dataclass(frozen=True)
class Metric:
    """How values of two arms compare; `relative` differences are fractions, others have the unit."""

    name: str
    relative: bool = False
    higher_is_better: bool = False
    unit: str = ""

    def worse_by(self, value: float, rival: float) -> float:
        """How much worse `value` is than `rival`: positive is worse, whichever way the metric goes."""
        difference = value / rival - 1 if self.relative else value - rival
        return -difference if self.higher_is_better else difference

    def amount(self, size: float) -> str:
        """The size of a difference in words."""
        return in_percent(size) if self.relative else f"{size:.3g} {self.unit}".rstrip()

    def shown(self, worse: Estimate) -> Estimate:
        """An estimate of "worse by" as the difference a reader sees: in percent where relative, up where
        the value is.
        """
        return worse.times((100 if self.relative else 1) * (-1 if self.higher_is_better else 1))

    def beats(self, better: str, worse: str) -> str:
        """That one arm's metric is on the better side of another's: "better" for losses alone, other
        metrics are only high or low.
        """
        if self.name in LOSSES or self.name.startswith("val/bpb/"):
            return f"{better} is better than {worse}"
        return f"{self.name} of {better} is {'higher' if self.higher_is_better else 'lower'} than that of {worse}"

    @property
    def of_own_steps(self) -> bool:
        """Whether a diverged run counts for the steps it had."""
        return self.name.startswith(OWN_STEPS)

    @property
    def diverged_as(self) -> str:
        """What a diverged run enters with, in words."""
        return "with the steps they had" if self.of_own_steps else "as before training"

    def text(self, worse: Estimate) -> str:
        shown = self.shown(worse)
        return shown.text("%", ".2f") if self.relative else shown.text(self.unit)


EXACT_NAMES = {
    "val/bpb": Metric("val/bpb", relative=True),
    "val/loss": Metric("val/loss", relative=True),
    "train/loss": Metric("train/loss", relative=True),
    "val/excess_bpb": Metric("val/excess_bpb", unit="bits a byte"),
    "tokens_per_second": Metric("tokens_per_second", relative=True, higher_is_better=True),
    "val/entropy": Metric("val/entropy", relative=True, higher_is_better=True),
    "gap": Metric("gap", unit="of the validation loss"),
    "peak/attention/logit_max": Metric("peak/attention/logit_max"),
    "peak/residual/rms": Metric("peak/residual/rms"),
    "lr/max_stable": Metric("lr/max_stable", higher_is_better=True, unit="half decades"),
    "lr/width": Metric("lr/width", higher_is_better=True, unit="half decades"),
    "lr/sensitivity": Metric("lr/sensitivity", unit="bits a byte"),
}
PATTERNS = (
    "val/bpb/<language>",
    "longer/<k>",
    "excess/<skill>",
    "accuracy/<skill>",
    "spikes/<signal>/<score>",
)


def metric(name: str) -> Metric | None:
    """The metric of that name; None where there is none such."""
    if name in EXACT_NAMES:
        return EXACT_NAMES[name]
    kind, _, rest = name.partition("/")
    if kind == "spikes":
        signal, _, score = rest.rpartition("/")
        return Metric(name) if signal in SIGNALS and score in SCORES else None
    if kind == "longer" and rest.isdecimal():
        return Metric(name, unit="of the loss at the trained length")
    if kind == "excess" and rest:
        return Metric(name, unit="bits a word")
    if kind == "accuracy" and rest:
        return Metric(name, higher_is_better=True)
    return Metric(name, relative=True) if name.startswith("val/bpb/") else None


def named(name: str) -> Metric:
    """The metric of that name. Raises ValueError where there is none such."""
    found = metric(name)
    if found is None:
        raise ValueError(f"metric = {name}: no such metric")
    return found


def value_of(record: dict[str, Any], name: str) -> float | None:
    """The metric of a run that ended by itself; None where the run doesn't know it."""
    summary = record["summary"]
    kind, _, rest = name.partition("/")
    if kind == "spikes":
        signal, _, score = rest.rpartition("/")
        return _number(summary["spikes"][signal][score])
    if name == "gap":
        return _gap(record)
    if kind == "peak":
        return _number(record["curves"].get("peaks", {}).get(rest))
    if kind == "longer":
        one, long = (_number(summary.get(f"val/bpb/length_{k}")) for k in ("1", rest))
        return long / one - 1 if one and long is not None else None
    if kind in ("excess", "accuracy"):
        return _number((summary.get("skills") or {}).get(rest, {}).get(kind))
    return _number(summary.get(name))


def value_at_init(record: dict[str, Any], name: str) -> float | None:
    """What a diverged run counts as; None where the record can't tell.

    Its spikes and its speed are those it had. Nats a token become bits a byte by the run's own
    evaluations, or, where it has none, by the bytes a token of its training text.
    """
    if name.startswith(OWN_STEPS):
        return value_of(record, name)
    if name.startswith("accuracy/"):
        return CHANCE
    curves, summary = record["curves"], record["summary"]
    if not curves["train"]:
        return None
    branched = record["config"].get("init_from") is not None  # its first step has a trained loss
    first = None if branched else curves["train"][0][2]
    nats = math.log(record["config"]["shape"]["vocab_size"]) if first is None else float(first)
    if name in ("val/loss", "train/loss"):
        return nats
    if name != "val/bpb":
        return None
    for _, _, loss, bpb in curves["validation"]:
        if loss and bpb:
            return float(nats * bpb / loss)
    if not summary.get("bytes"):
        return None
    return float(nats / math.log(2) * summary["tokens"] / summary["bytes"])


def _gap(record: dict[str, Any]) -> float | None:
    """How far the loss of unseen text lies above that of the text trained on, by the last tenth of the
    logged steps.

    Steps kept for their spikes alone stay out: they would weigh more the more a run spikes.
    """
    points, loss = record["curves"]["train"], _number(record["summary"].get("val/loss"))
    stride = max((b[0] - a[0] for a, b in pairwise(points)), default=1)
    last = [
        nats
        for step, _, nats, _ in points
        if nats is not None
        and step > (1 - GAP_SHARE) * points[-1][0]
        and ((step - points[0][0]) % stride == 0 or step == points[-1][0])
    ]
    return (loss - math.fsum(last) / len(last)) / loss if loss and last else None


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
