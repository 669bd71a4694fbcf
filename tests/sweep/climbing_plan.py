"""The plan of a made-up ablation over horizons, without prepared data, and losses in place of training."""

from lab.store.plan_record import Rung, SearchRecord
from tests.sweep.test_search import end

TEXT = """title: t
question: q
source: s
axis: {key: norm, label: norm, numeric: false}
match: {hold: none, solve: none}
horizons: 5
seeds: 4
search: {}
baseline: rmsnorm
arms:
  rmsnorm: {family: f, label: a, overrides: [norm=rmsnorm]}
  layernorm: {family: f, label: b, overrides: [norm=layernorm]}
claims:
  - {id: rms-vs-ln-loss, statement: s, source: s, prediction: p, metric: val/bpb, needs: [],
     predicate: {equivalent: {among: {family: f}, margin: 0.01}}}
"""


def climbed(plan, store, loss, told):
    """A carry_out that ends each open run that is to end with loss(arm, rate, seed, tokens)."""

    def carry_out(part, title):
        ended = [
            job for run, job in part.jobs.items() if store.state(run) == "pending" and not job.until_step
        ]
        for job in ended:
            parent = job.manifest.parent
            tokens = (parent.tokens if parent else 0) + job.tokens
            bpb = loss(job.manifest.job_type, job.config.optimizer.lr, job.config.seed, tokens)
            end(store, job, bpb)
        told.append((title, len(ended)))

    return carry_out


def rung(tokens, **losses):
    """Losses of one arm by rate, the same for both seeds."""
    by_rate = {float(rate.removeprefix("r")): (loss, loss) for rate, loss in losses.items()}
    return Rung(tokens, {"a": {rate: {} for rate in by_rate}}, {"a": by_rate})


def first_search(values):
    return SearchRecord(
        key="optimizer.lr",
        metric="val/bpb",
        common=values[0],
        values=values,
        seeds=(100, 101),
        arms={},
        losses={},
        at_init={"a": 8.0},
        means={},
        best={"a": values[0]},
        interior={},
        sensitivity={},
        extended=0,
    )
