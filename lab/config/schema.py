"""The typed, closed schema: what a user may set, and what one run is.

`Config` is what Hydra composes from `conf/`: sizes and rules. `RunConfig` is what those rules resolve to,
the only thing that data, model and training read and that a run's identity hashes. Standard library only,
so a training worker can read a `RunConfig` from JSON without Hydra. No variant of any axis is known here
by name.
"""

import dataclasses
import typing
from dataclasses import dataclass, field
from typing import Any

from lab.config.strict import ConfigError, absent, build, neutral

Settings = dict[str, Any]  # an option as its YAML states it, or a part of it: numbers, truth values, words


@dataclass(frozen=True)
class Shape:
    """The explicit shape that size, aspect, heads, ratio and vocabulary resolve to. num_kv_heads: null for
    num_heads.
    """

    d_model: int
    num_layers: int
    num_heads: int
    head_dim: int
    d_ff: int
    vocab_size: int
    context_length: int
    num_kv_heads: int | None = neutral(None)

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.num_kv_heads or self.num_heads


@dataclass(frozen=True)
class Embedding:
    """tied: the head is the table, and its logits are divided by sqrt(d_model) if head_scaled (PaLM,
    2204.02311, section 5.1).

    scaled: vectors times sqrt(d_model) at the input (Vaswani et al. 2017, section 3.4), the table starting
    as much smaller; normed: a norm of the embeddings, before positions are added (BLOOM, 2211.05100,
    section 3.2.2).
    """

    tied: bool
    scaled: bool = neutral(False)
    head_scaled: bool = neutral(True)
    normed: bool = neutral(False)


@dataclass(frozen=True)
class Init:
    """Matrices: variance std^2, null for 2 / (d_in + d_out), normal or uniform; embeddings: N(0,
    embedding_std^2).

    Normals are cut at `cutoff` standard deviations, null for nowhere. depth_scaled: what adds to the
    residual stream starts sqrt(2 num_layers) times smaller (GPT-2).
    """

    embedding_std: float
    cutoff: float | None
    std: float | None = neutral(None)
    depth_scaled: bool = neutral(False)
    uniform: bool = neutral(False)


@dataclass(frozen=True)
class Regularization:
    """label_smoothing: the share of each target that is spread evenly over the vocabulary in training."""

    dropout: float
    weight_decay: float
    label_smoothing: float = neutral(0.0)


@dataclass(frozen=True)
class Stability:
    """z_loss: weight of log Z squared (PaLM); caps: c in c * tanh(x / c), null for none (Gemma 2).

    qk_norm: a norm of each head's queries and keys; with qk_norm_joint one norm over all heads together
    (OLMo 2).
    """

    z_loss: float = neutral(0.0)
    qk_norm: bool = neutral(False)
    qk_norm_joint: bool = neutral(False)
    attention_softcap: float | None = neutral(None)
    output_softcap: float | None = neutral(None)


class Choice:
    """One variant of an axis of training: fields for what all share, `own` for what it alone is told.

    In YAML and JSON the keys of both stand side by side; which are its own, its YAML says.
    """

    name: str
    own: Settings

    @classmethod
    def from_plain(cls, values: Any, *, where: str = "", problems: list[str]) -> Any:
        shared = [key for key in cls.__annotations__ if key != "own"]
        if isinstance(values, dict):
            own = {key: value for key, value in values.items() if key not in shared}
            values = {key: values[key] for key in shared if key in values} | {"own": own}
        return build(cls, values, where=f"{where}." if where else "", problems=problems)

    def settings(self) -> Settings:
        """Every key with its value, the variant's own where `own` stands."""
        found: Settings = {}
        for key in type(self).__annotations__:
            value = getattr(self, key)
            found |= value if key == "own" else {key: value}
        return found

    def to_plain(self) -> Settings:
        return self.settings()


@dataclass(frozen=True)
class Optimizer(Choice):
    """lr: the peak of the schedule; grad_clip: the norm that no gradient exceeds, null for none.

    own: the keyword arguments of its function in lab/train/optimizer.py.
    """

    name: str
    lr: float
    own: Settings
    grad_clip: float | None


@dataclass(frozen=True)
class Schedule(Choice):
    """Fractions of all steps: linear warm-up. Of the peak: the final learning rate, 1 where it never falls.

    own: the keyword arguments of its function in lab/train/schedule.py.
    """

    name: str
    warmup_fraction: float
    final_fraction: float
    own: Settings = field(default_factory=dict)

    @classmethod
    def from_plain(cls, values: Any, *, where: str = "", problems: list[str]) -> Any:
        if isinstance(values, dict):
            values = {"final_fraction": 1.0} | values
        return super().from_plain(values, where=where, problems=problems)

    def to_plain(self) -> Settings:
        """Records hold a decay_fraction of 0 where there is none; see RunConfig."""
        return self.settings() | {"decay_fraction": self.own.get("decay_fraction", 0.0)}


@dataclass(frozen=True)
class Grammar:
    """The knobs of the story generator (lab/data/stories/generator.py).

    words: share of each word list in use, the frequent end of it; zipf_exponent: of words, names and so of
    facts; facts: size of the fact table; objects, friends: the most of each in one story; events: their
    mean number; distance: sentences in between before something introduced comes back; noise: chance that
    a word which the story decides is another; languages: how many lexicons the stories are told in, the
    first English, the others made up.
    """

    words: float
    zipf_exponent: float
    facts: int
    objects: int
    friends: int
    events: float
    distance: int
    noise: float
    languages: int


@dataclass(frozen=True)
class Data:
    """grammar: null in runs on the first recipe of stories, which had no knobs. skip_null: records whose text
    is null are passed over and counted; otherwise they are an error.
    """

    name: str
    path: str | None
    validation_path: str | None
    validation_fraction: float
    text_field: str
    stories: int
    validation_stories: int
    seed: int
    grammar: Grammar | None = neutral(None)
    skip_null: bool = absent(False)


@dataclass(frozen=True)
class Vocab:
    """value: the whole vocabulary with its one special token, <|endoftext|>."""

    tokenizer: str
    value: int


@dataclass(frozen=True)
class Precision:
    dtype: str
    compile: bool


@dataclass(frozen=True)
class Evaluation:
    """points: evaluations a run, the last at its end; documents: validation documents scored; bytes: of
    their text at most, whole documents and one at least; rows: batch size.

    choices: forced choices of each skill, samples: texts generated, both once at the end. lengths:
    multiples of the context length at which the loss on the same tokens is taken, once at the end
    (lab/train/lengths.py).
    """

    points: int
    documents: int
    rows: int
    choices: int = neutral(32)
    samples: int = neutral(4)
    lengths: list[int] = neutral([])
    bytes: int | None = absent(None)


@dataclass(frozen=True)
class Monitor:
    """When diagnostics are taken, what is a spike (lab/store/spikes.py) and when a run has diverged
    (lab/train/stability.py).
    """

    diagnostics_every: int
    spike_window: int
    spike_threshold: float
    divergence_factor: float
    divergence_patience: int


@dataclass(frozen=True)
class Size:
    """tokens, bytes: the budget of a run by itself; first_horizon: tokens at the first of the horizons,
    which double (lab/plan/horizons.py); stories: enough for the last of them.
    """

    name: str
    d_model: int
    num_layers: int
    head_dim: int
    context_length: int
    vocab_size: int
    tokens_per_step: int
    tokens: int
    bytes: float
    lr: float
    stories: int
    first_horizon: int


@dataclass(frozen=True)
class Heads:
    """value: number of heads; head_dim: their size. With one of them null their product is d_model, with
    both the size's head_dim holds.
    """

    value: int | None
    head_dim: int | None


@dataclass(frozen=True)
class Attention:
    """num_kv_heads: heads of keys and values that the query heads share in groups; null for one for each."""

    num_kv_heads: int | None


@dataclass(frozen=True)
class FFNRatio:
    """value: width of all networks a token passes / d_model; null is the rule 4 for plain and 8/3 for
    gated layers, which have equal parameters.
    """

    value: float | None


@dataclass(frozen=True)
class Aspect:
    """value: d_model / num_layers at the size's body parameters; null keeps the size's own."""

    value: float | None


@dataclass(frozen=True)
class Batch:
    """tokens_per_step tokens in micro-batches of micro_rows rows; null takes the step in one."""

    tokens_per_step: int
    micro_rows: int | None


@dataclass(frozen=True)
class Budget:
    unit: str
    amount: float


@dataclass(frozen=True)
class Tracker:
    name: str
    project: str
    mode: str


@dataclass(frozen=True)
class Engine:
    """workers: runs at a time, null for one a core; device: cpu, cuda or auto; checkpoints every so many
    seconds.

    keep_every: the checkpoints at its multiples, in steps, stay for other runs to start from; null keeps
    the last alone.
    """

    workers: int | None
    device: str
    checkpoint_seconds: float
    keep_every: int | None


@dataclass(frozen=True)
class Config:
    """What is asked: the composed `conf/` tree. init_from: RUN@STEP, the checkpoint to start from
    (lab/plan/branch.py).
    """

    seed: int
    init_from: str | None
    size: Size
    norm_placement: Settings
    norm: Settings
    activation: Settings
    position: Settings
    block: Settings
    ffn: Settings
    ffn_ratio: FFNRatio
    heads: Heads
    aspect: Aspect
    vocab: Vocab
    regularization: Regularization
    stability: Stability
    pattern: Settings
    bias: Settings
    attention: Attention
    embedding: Embedding
    init: Init
    optimizer: Optimizer
    schedule: Schedule
    data: Data
    batch: Batch
    budget: Budget
    precision: Precision
    evaluation: Evaluation
    monitor: Monitor
    tracker: Tracker
    engine: Engine


@dataclass(frozen=True)
class RunConfig:
    """What one run is: every rule resolved. `data` stands by its fingerprint in the identity, not by its
    path.
    """

    seed: int
    shape: Shape
    norm_placement: Settings
    norm: Settings
    activation: Settings
    position: Settings
    embedding: Embedding
    init: Init
    regularization: Regularization
    stability: Stability
    optimizer: Optimizer
    schedule: Schedule
    data: Data
    vocab: Vocab
    precision: Precision
    evaluation: Evaluation
    monitor: Monitor
    steps: int
    rows: int
    micro_rows: int
    data_fingerprint: str
    block: Settings = neutral({"name": "serial"})
    ffn: Settings = neutral({"name": "dense"})
    pattern: Settings = neutral({"name": "full"})
    bias: Settings = neutral({"name": "norm"})
    init_from: str | None = neutral(None)

    @classmethod
    def from_plain(cls, values: Any, *, where: str = "", problems: list[str]) -> Any:
        """Every schedule has a decay_fraction in records, and had one before it was wsd's own. At 0 it is no
        part of a run's name, and nothing reads it.
        """
        schedule = values.get("schedule") if isinstance(values, dict) else None
        if isinstance(schedule, dict) and schedule.get("decay_fraction") == 0:
            read = {key: value for key, value in schedule.items() if key != "decay_fraction"}
            values = values | {"schedule": read}
        return build(cls, values, where=f"{where}." if where else "", problems=problems)


TRAINED = tuple(
    f.name for f in dataclasses.fields(Config) if isinstance(f.type, type) and issubclass(f.type, Choice)
)
STRUCTURAL = tuple(f.name for f in dataclasses.fields(Config) if typing.get_origin(f.type) is dict)


def run_config(values: Settings) -> RunConfig:
    """The `RunConfig` of its JSON form. Raises ConfigError."""
    problems: list[str] = []
    config = RunConfig.from_plain(values, problems=problems)
    if problems:
        raise ConfigError(problems)
    return typing.cast(RunConfig, config)
