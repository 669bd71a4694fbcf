"""One run as reports, verdicts and publishing read it, and the files of a run folder that it is made of.

`RunRecord` is what a line of results/<ablation>/<setting>/runs.jsonl holds. Lines that were published
before a key existed lack it and keep loading; what a field has then stands beside it.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.config.schema import RunConfig
from lab.config.strict import absent, build, key, neutral, plain
from lab.store.states import RESULT_STATES


@dataclass(frozen=True)
class Counts:
    """What a model has and needs, counted before it runs (lab/plan/budget.py says how).

    parameters = body + embedding (input, positions and untied head); flops_per_token: training, matrix
    products only; active_parameters: those of the body that work for a token, fewer than the body's in a
    mixture of experts; kv_cache_bytes_per_token: keys and values that generation keeps of a full context,
    over its length; activation_bytes_per_token: what training keeps for the backward pass. The last three
    are None in records from before they were counted.
    """

    parameters: int
    body_parameters: int
    embedding_parameters: int
    flops_per_token: int
    active_parameters: int | None = absent(None)
    kv_cache_bytes_per_token: float | None = absent(None)
    activation_bytes_per_token: float | None = absent(None)


@dataclass(frozen=True)
class Provenance:
    """What a run's numbers depend on beside its configuration: code, versions and hardware.

    commit and clean are None outside a git checkout. earlier_source_hashes: of the code that trained the
    run's first steps, where other code went on with it.
    """

    commit: str | None
    clean: bool | None
    source_hash: str
    python: str
    torch: str
    device_kind: str
    device: str
    cores: int | None
    threads: int
    started: str
    earlier_source_hashes: tuple[str, ...] = absent(())


class ReadRows(NamedTuple):
    """Rows of training text that a run has read: those of `seed`'s order, of `length` tokens, so many."""

    seed: int
    length: int
    rows: int


@dataclass(frozen=True)
class ReadText:
    """What a run read of the data with that fingerprint."""

    data: str
    rows: ReadRows


@dataclass(frozen=True)
class Parent:
    """The checkpoint that a run starts from; tokens and `read` count those of its own parents too."""

    run_id: str
    step: int
    numerics: int
    tokens: int
    read: tuple[ReadText, ...]


@dataclass(frozen=True)
class Manifest:
    """manifest.json: which sweep first asked for the run, and with what it was trained.

    group is the ablation, job_type the arm. tokenizer_hash is None in runs from before it was noted.
    """

    run_id: str
    numerics: int
    group: str
    job_type: str
    tags: tuple[str, ...]
    counts: Counts
    provenance: Provenance
    tokenizer_hash: str | None = absent(None)
    parent: Parent | None = absent(None)


@dataclass(frozen=True)
class SpikeSummary:
    """How often one signal of a run spiked (lab/store/spikes.py); scores are None for runs that are too
    short.
    """

    window: int
    threshold: float
    events: int
    score_k4: float | None
    score_k7: float | None
    p999_over_median: float | None


@dataclass(frozen=True)
class SkillSummary:
    """What a run learnt of one skill at its end.

    floor and excess in bits a word: the exact surprisal of the words that test the skill, and what the model
    pays beyond it. accuracy: the share of forced choices that are right, None where none were made.
    """

    words: int
    floor: float
    excess: float
    accuracy: float | None


@dataclass(frozen=True)
class Summary:
    """summary.json: how a run ended and what it measured.

    A failed run has a state and a reason alone. `measured` holds every number by its name with a slash
    ("val/bpb", "train/loss", "val/excess/facts"), None where it is not finite or was not evaluated.
    undefined_lengths says why the loss at a length isn't known; warning what is wrong with the numbers.
    learnt: whether the last val/bpb is at most unigram_bpb, the unigram entropy of the validation text; None
    where a run didn't reach its end, and in records from before it was noted. group_bpb, group_excess_bpb:
    val/bpb and val/excess_bpb at the end of each group of validation documents (lab/train/evaluate.py), None
    for the same runs.
    """

    state: str
    reason: str | None
    measured: dict[str, float | None]
    steps: int | None = None
    tokens: int | None = None
    bytes: int | None = None
    epochs: float | None = None
    seconds: float | None = None
    tokens_per_second: float | None = None
    unigram_bpb: float | None = None
    attention_kernel: str | None = None
    warning: str | None = None
    spikes: dict[str, SpikeSummary] = dataclasses.field(default_factory=dict)
    skills: dict[str, SkillSummary] = dataclasses.field(default_factory=dict)
    undefined_lengths: dict[str, str] | None = None
    learnt: bool | None = None
    group_bpb: tuple[float, ...] | None = None
    group_excess_bpb: tuple[float, ...] | None = None

    @property
    def bpb(self) -> float | None:
        """Bits per byte of the validation text."""
        return self.measured.get("val/bpb")

    @classmethod
    def from_plain(cls, values: Any, *, where: str = "", problems: list[str]) -> Summary | None:
        if not isinstance(values, dict):
            problems.append(f"{where.rstrip('.: ')}: needs a group of keys.")
            return None
        measured = {name: value for name, value in values.items() if "/" in name}
        rest = {name: value for name, value in values.items() if "/" not in name}
        read = build(_SummaryKeys, rest, where=f"{where}." if where else "", problems=problems)
        if read is None:
            return None
        own = {f.name: getattr(read, f.name) for f in dataclasses.fields(read)}
        return cls(measured=measured, **own)

    def to_plain(self) -> dict[str, Any]:
        if self.state not in RESULT_STATES:
            return {"state": self.state, "reason": self.reason}
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(_SummaryKeys)}
        return plain(_SummaryKeys(**own)) | self.measured


@dataclass(frozen=True)
class _SummaryKeys:
    """The keys of summary.json without a slash; all but the first two are missing where a run failed."""

    state: str
    reason: str | None
    steps: int | None = neutral(None)
    tokens: int | None = neutral(None)
    bytes: int | None = neutral(None)
    epochs: float | None = neutral(None)
    seconds: float | None = neutral(None)
    tokens_per_second: float | None = neutral(None)
    unigram_bpb: float | None = neutral(None)
    attention_kernel: str | None = neutral(None)
    warning: str | None = neutral(None)
    spikes: dict[str, SpikeSummary] = neutral({})
    skills: dict[str, SkillSummary] = neutral({})
    undefined_lengths: dict[str, str] | None = absent(None)
    learnt: bool | None = absent(None)
    group_bpb: tuple[float, ...] | None = absent(None)
    group_excess_bpb: tuple[float, ...] | None = absent(None)


class TrainPoint(NamedTuple):
    """One training step of a thinned curve; values that are not finite are None."""

    step: int
    tokens: int
    loss: float | None
    grad_norm: float | None


class ValidationPoint(NamedTuple):
    """One evaluation; loss in nats a token, bpb in bits a byte."""

    step: int
    tokens: int
    loss: float | None
    bpb: float | None


class SkillPoint(NamedTuple):
    """What a skill costs beyond its exact surprisal, in bits a byte of the text whose surprisal is known."""

    tokens: int
    excess: float | None


class SpikePoint(NamedTuple):
    """One spike: of which signal, its value there and how many standard deviations above the mean it lies."""

    step: int
    signal: str
    value: float | None
    score: float


class Mover(NamedTuple):
    """What rose first: how many steps before the spike, 0 for at it, and which statistic."""

    before: int
    statistic: str


class Often(NamedTuple):
    """How often something was seen, of how many."""

    often: int
    of: int


@dataclass(frozen=True)
class FirstMovers:
    """What moved first before each kept spike; how often anything rose before spikes, and before quiet
    steps.
    """

    spikes: Often
    quiet: Often
    of: tuple[Mover | None, ...]


@dataclass(frozen=True)
class Curves:
    """A run's log, thinned until a published line can hold it (lab/store/curves.py).

    train has the steps of spikes too; spikes are the largest ones; peaks the largest value of a statistic
    over steps and layers; excess a curve for each skill. first_movers: where every step was diagnosed.
    """

    train: tuple[TrainPoint, ...]
    validation: tuple[ValidationPoint, ...]
    spikes: tuple[SpikePoint, ...]
    peaks: dict[str, float | None] = neutral({})
    excess: dict[str, tuple[SkillPoint, ...]] = neutral({})
    first_movers: FirstMovers | None = absent(None)


@dataclass(frozen=True)
class RunRecord:
    """One run. summary is None until it has reached an end state."""

    run_id: str
    state: str
    config: RunConfig
    summary: Summary | None
    curves: Curves
    numerics: int
    counts: Counts
    provenance: Provenance
    parent: Parent | None = absent(None)

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def ended(self) -> Summary:
        """The summary of a run that has ended."""
        assert self.summary is not None, f"run {self.run_id} has not ended"
        return self.summary


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """What two runs must share before their difference says anything about their arms.

    Fields are None where a run doesn't know them, as one that failed doesn't know the text it would have been
    scored on.
    """

    data: str | None
    device_kind: str | None = key("device kind")
    numerics: int | None
    precision: str | None
    scored_bytes: int | None = key("scored bytes")
    torch: str | None

    def fits(self, other: Likeness) -> bool:
        """Whether all that is known of this one agrees with the other."""
        return all(
            value in (theirs, None)
            for (_, value), (_, theirs) in zip(self.named(), other.named(), strict=True)
        )

    def named(self) -> list[tuple[str, Any]]:
        """(what it is called, value) of each field, in order."""
        return [(f.metadata.get("key") or f.name, getattr(self, f.name)) for f in dataclasses.fields(self)]

    def text(self) -> str:
        """All of it in one order."""
        return json.dumps(dict(self.named()), sort_keys=True)

    def unlike(self, other: Likeness) -> list[tuple[str, Any, Any]]:
        """(what, the value here, the value there) of each field in which the two are known to differ."""
        return [
            (name, value, theirs)
            for (name, value), (_, theirs) in zip(self.named(), other.named(), strict=True)
            if value not in (theirs, None)
        ]


def likeness(record: RunRecord) -> Likeness:
    """The likeness of one run."""
    scored = record.summary.measured.get("val/bytes") if record.summary else None
    return Likeness(
        numerics=record.numerics,
        device_kind=record.provenance.device_kind,
        precision=record.config.precision.dtype,
        torch=record.provenance.torch,
        data=record.config.data_fingerprint,
        scored_bytes=None if scored is None else int(scored),
    )
