"""What do published models have in common? Counts over the table in survey.yaml.

A missing cell is left out of its share and counted. Intervals are Wilson's (1927), at 95 %: the table is a
sample of the models that published their design, not of all models.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lab.config.strict import read
from lab.lecture.exact.check import Check, Checks, at_least, at_most, close, equal, rounded

Z95 = 1.959964
GATED, PLAIN = ("swiglu", "geglu"), ("relu", "gelu", "relu2")


@dataclass(frozen=True)
class PublishedModel:
    """A row of the table: the shape of a published dense language model; None where its source doesn't say.

    norm: layernorm or rmsnorm. placement: of the norms, pre, post, double or output. block: serial or
    parallel. position: sine, learned, relative, alibi, rope, or hybrid for rope in some layers only. cite:
    arXiv id or address. checked: the name of the public configuration that the row was compared with.
    """

    model: str
    year: int
    cite: str
    checked: str | None
    norm: str | None
    placement: str | None
    block: str | None
    position: str | None
    activation: str | None
    d_model: int
    layers: int
    heads: int
    head_dim: int
    d_ff: int
    vocab: int
    dropout: float | None
    weight_decay: float | None

    @property
    def ffn_ratio(self) -> float:
        return self.d_ff / self.d_model

    @property
    def aspect(self) -> float:
        """Width over depth."""
        return self.d_model / self.layers

    @property
    def heads_over_width(self) -> float:
        """Heads times head size over d_model, 1 in most models."""
        return self.heads * self.head_dim / self.d_model


@dataclass(frozen=True)
class _Survey:
    """survey.yaml as it is written, a row a model."""

    columns: tuple[str, ...]
    models: list[list[Any]]


@cache
def table() -> tuple[PublishedModel, ...]:
    """The models of survey.yaml, oldest first. Raises ConfigError naming the row and the column."""
    import yaml

    path = Path(__file__).parent / "survey.yaml"
    survey = read(_Survey, yaml.safe_load(path.read_text()), source=path.name)
    return tuple(
        read(PublishedModel, dict(zip(survey.columns, row, strict=True)), source=f"{path.name}, {row[0]}")
        for row in survey.models
    )


def wilson(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of a share of `hits` in `n`."""
    centre, spread = (hits + Z95**2 / 2) / (n + Z95**2), Z95 / (n + Z95**2)
    half = spread * math.sqrt(hits * (n - hits) / n + Z95**2 / 4)
    return max(0.0, centre - half), min(1.0, centre + half)


def share(
    check: str,
    of: Callable[[PublishedModel], Any],
    matches: Callable[[Any], bool],
    *,
    threshold: float,
    since: int = 0,
    until: int = 9999,
    note: str = "",
    notes: str | None = "holds",
) -> Check:
    """The share of the models of some years whose column `matches`, which should reach a threshold.

    of: the column. A model without a value there is left out of the share and counted as unknown.
    """
    models = [model for model in table() if since <= model.year <= until]
    known = [value for model in models if (value := of(model)) is not None]
    hits = sum(matches(value) for value in known)
    low, high = wilson(hits, len(known))
    told = (
        f"{hits} of {len(known)} models, interval {low:.2f} to {high:.2f}, {len(models) - len(known)} unknown"
    )
    measured = rounded(hits / len(known), 3)
    return Check(check, f">= {threshold}", measured, measured >= threshold, f"{told}. {note}".rstrip(), notes)


def median(values: list[float]) -> float:
    """The middle value, or the mean of the two in the middle."""
    from statistics import median as middle

    return float(middle(values))


def consensus() -> list[Check]:
    """The checks of survey-consensus: what the notes say most models share."""
    models = table()
    by_name = {model.model: model for model in models}
    compared = sum(model.checked is not None for model in models)
    heads = [model.heads_over_width for model in models]
    aspects = [model.aspect for model in models]
    gated = [model.ffn_ratio for model in models if model.activation in GATED]
    plain = [model.ffn_ratio for model in models if model.activation in PLAIN]
    t5, t5_gated = by_name["T5 11B"], by_name["T5 v1.1 XXL"]
    exotic = ("GLM-130B",)
    return [
        equal(
            "models in the table, each once",
            len(models),
            len(by_name),
            note=f"{compared} compared with a public configuration, the others as their report is known",
        ),
        share(
            "no norm on the residual stream, 2019 and later",
            lambda model: model.placement,
            lambda p: p != "post",
            threshold=0.95,
            since=2019,
            note=f"Exception: {', '.join(exotic)} (DeepNorm).",
        ),
        share(
            "norm on both sides or on the output, 2024 and later",
            lambda model: model.placement,
            lambda p: p in ("double", "output"),
            threshold=0.1,
            since=2024,
        ),
        share(
            "RMSNorm, 2023 and later",
            lambda model: model.norm,
            lambda n: n == "rmsnorm",
            threshold=0.6,
            since=2023,
        ),
        share(
            "serial blocks, 2023 and later",
            lambda model: model.block,
            lambda b: b == "serial",
            threshold=0.75,
            since=2023,
        ),
        share(
            "rotary positions, at least in part, 2024 and later",
            lambda model: model.position,
            lambda p: p in ("rope", "hybrid"),
            threshold=0.9,
            since=2024,
        ),
        share(
            "no rotary positions before 2023",
            lambda model: model.position,
            lambda p: p != "rope",
            threshold=0.5,
            until=2022,
        ),
        share(
            "gated feed-forward layers, 2023 and later",
            lambda model: model.activation,
            lambda a: a in GATED,
            threshold=0.75,
            since=2023,
        ),
        at_least(
            "models of 2023 and later that are not gated",
            1,
            sum(model.year >= 2023 and model.activation in ("gelu", "relu2") for model in models),
            notes="holds",
            note="so a gate is not required",
        ),
        close("median d_ff / d_model of plain layers", 4.0, median(plain), within=0.01, notes="holds"),
        at_most(
            "distance of the gated median from 8 / 3, relative",
            0.4,
            abs(median(gated) / (8 / 3) - 1),
            note=f"median {median(gated):.2f}; Gemma 7B and Gemma 2 use 8, T5 v1.1 2.5",
        ),
        at_least(
            "share of models with heads x head size = d_model",
            0.75,
            sum(abs(v - 1) < 1e-9 for v in heads) / len(heads),
            notes="holds",
            note="T5 11B 16, LaMDA 2, Gemma 7B 1.33; PaLM 0.67, see below",
        ),
        close(
            "PaLM's heads x head size / d_model",
            48 * 256 / 18432,
            by_name["PaLM 540B"].heads_over_width,
            note="the course's table prints 1.48",
        ),
        at_least(
            "share of models with d_model / layers from 100 to 200, most of them",
            0.5,
            rounded(sum(100 <= v <= 200 for v in aspects) / len(aspects), 3),
            notes="holds",
            note=(f"median {median(aspects):.0f}; T5 11B {t5.aspect:.0f} is the deep outlier"),
        ),
        equal(
            "T5 11B and T5 v1.1: d_ff / d_model",
            [64.0, 2.5],
            [t5.ffn_ratio, t5_gated.ffn_ratio],
            notes="holds",
        ),
        share(
            "weight decay of 0.1 where it is published, 2022 and later",
            lambda model: model.weight_decay,
            lambda w: w == 0.1,
            threshold=0.75,
            since=2022,
        ),
        share(
            "dropout 0 where it is published, 2022 and later",
            lambda model: model.dropout,
            lambda d: d == 0,
            threshold=0.75,
            since=2022,
            note="most reports of later years don't mention it",
        ),
    ]


CLAIMS: dict[str, Checks] = {"survey-consensus": consensus}
