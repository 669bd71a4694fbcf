"""Which number of a run does a claim judge, in which unit do arms differ, and which way is better?

    val/bpb, val/bpb/<language>     a fraction of the rival's value, lower is better;
    val/loss, train/loss            the same
    val/excess_bpb                  bits a byte, lower is better
    excess/<skill>                  bits a word of the skill, lower is better
    accuracy/<skill>                share of forced choices that are right, higher is better
    val/entropy                     of the predictions; a fraction of the rival's value, higher is better
    gap                             (val/loss - train/loss) / val/loss, near the end of training
    longer/<k>                      val/bpb with k times the context over that with one, less 1
    peak/<statistic>                the largest of all layers and diagnosed steps
    spikes/<signal>/<score>         as lab/store/spikes.py scores them, lower is better
    tokens_per_second               a fraction, higher is better
    lr/max_stable, lr/width,        from the search of learning rates, see lab/verdict/lr_range.py
    lr/sensitivity

A diverged run enters as what a model without training has: the loss of its first step, or of a uniform
guess where that was not finite, and chance where it chooses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from itertools import pairwise

from lab.store.run_record import RunRecord, SpikeSummary
from lab.store.spikes import SIGNALS

CHANCE = 0.5
GAP_SHARE = 0.1
SCORES = tuple(f.name for f in fields(SpikeSummary) if f.name not in ("window", "threshold"))
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

    @property
    def of_own_steps(self) -> bool:
        """Whether a diverged run counts for the steps it had."""
        return self.name.startswith(OWN_STEPS)

    @property
    def is_loss(self) -> bool:
        """Whether lower is better beyond doubt."""
        return self.name in LOSSES or self.name.startswith("val/bpb/")


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


def value_of(record: RunRecord, name: str) -> float | None:
    """The metric of a run that ended by itself; None where the run doesn't know it."""
    summary = record.ended
    kind, _, rest = name.partition("/")
    if kind == "spikes":
        signal, _, score = rest.rpartition("/")
        return _number(getattr(summary.spikes[signal], score))
    if name == "gap":
        return _gap(record)
    if name == "tokens_per_second":
        return _number(summary.tokens_per_second)
    if kind == "peak":
        return _number(record.curves.peaks.get(rest))
    if kind == "longer":
        one, long = (_number(summary.measured.get(f"val/bpb/length_{k}")) for k in ("1", rest))
        return long / one - 1 if one and long is not None else None
    if kind in ("excess", "accuracy"):
        return _number(getattr(summary.skills[rest], kind)) if rest in summary.skills else None
    return _number(summary.measured.get(name))


def value_at_init(record: RunRecord, name: str) -> float | None:
    """What a diverged run counts as; None where the record can't tell.

    Its spikes and its speed are those it had. Nats a token become bits a byte by the run's own evaluations,
    or, where it has none, by the bytes a token of its training text.
    """
    if name.startswith(OWN_STEPS):
        return value_of(record, name)
    if name.startswith("accuracy/"):
        return CHANCE
    curves, summary = record.curves, record.ended
    branched = record.config.init_from is not None  # its first step has a trained loss
    if not curves.train and not branched:
        return None
    first = None if branched else curves.train[0].loss
    nats = math.log(record.config.shape.vocab_size) if first is None else float(first)
    if name in ("val/loss", "train/loss"):
        return nats
    if name != "val/bpb":
        return None
    for point in curves.validation:
        if point.loss and point.bpb:
            return float(nats * point.bpb / point.loss)
    if not summary.bytes or summary.tokens is None:
        return None
    return float(nats / math.log(2) * summary.tokens / summary.bytes)


def _gap(record: RunRecord) -> float | None:
    """How far the loss of unseen text lies above that of the text trained on, by the last tenth of the
    logged steps.

    Steps kept for their spikes alone stay out: they would weigh more the more a run spikes.
    """
    points, loss = record.curves.train, _number(record.ended.measured.get("val/loss"))
    stride = max((b.step - a.step for a, b in pairwise(points)), default=1)
    last = [
        point.loss
        for point in points
        if point.loss is not None
        and point.step > (1 - GAP_SHARE) * points[-1].step
        and ((point.step - points[0].step) % stride == 0 or point.step == points[-1].step)
    ]
    return (loss - math.fsum(last) / len(last)) / loss if loss and last else None


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
