"""What do published models have in common? Counts over the table in survey.yaml.

A missing cell is left out of its share and counted. Intervals are Wilson's (1927), at 95 %: the table is a
sample of the models that published their design, not of all models.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from lab.lecture.exact.check import Check, Checks, at_least, at_most, close, equal, rounded

Row = dict[str, Any]
Z95 = 1.959964
GATED = ("swiglu", "geglu")


@cache
def table() -> tuple[Row, ...]:
    """The models, oldest first."""
    import yaml

    content = yaml.safe_load((Path(__file__).parent / "survey.yaml").read_text())
    return tuple(dict(zip(content["columns"], row, strict=True)) for row in content["models"])


def wilson(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of a share of `hits` in `n`."""
    centre, spread = (hits + Z95**2 / 2) / (n + Z95**2), Z95 / (n + Z95**2)
    half = spread * math.sqrt(hits * (n - hits) / n + Z95**2 / 4)
    return max(0.0, centre - half), min(1.0, centre + half)


def share(
    check: str,
    column: str,
    matches: Callable[[Any], bool],
    *,
    threshold: float,
    since: int = 0,
    until: int = 9999,
    note: str = "",
    notes: str | None = "holds",
) -> Check:
    """A share of the models of some years, against a threshold that it should reach."""
    rows = [row for row in table() if since <= row["year"] <= until]
    known = [row for row in rows if row[column] is not None]
    hits = sum(matches(row[column]) for row in known)
    low, high = wilson(hits, len(known))
    told = (
        f"{hits} of {len(known)} models, interval {low:.2f} to {high:.2f}, {len(rows) - len(known)} unknown"
    )
    measured = rounded(hits / len(known), 3)
    return Check(check, f">= {threshold}", measured, measured >= threshold, f"{told}. {note}".rstrip(), notes)


def median(values: list[float]) -> float:
    from statistics import median as middle

    return float(middle(values))


def consensus() -> list[Check]:
    rows = table()
    compared = sum(row["checked"] is not None for row in rows)
    heads = {row["model"]: row["heads"] * row["head_dim"] / row["d_model"] for row in rows}
    aspect = {row["model"]: row["d_model"] / row["layers"] for row in rows}
    ratio = {row["model"]: row["d_ff"] / row["d_model"] for row in rows}
    gated = [ratio[row["model"]] for row in rows if row["activation"] in GATED]
    plain = [ratio[row["model"]] for row in rows if row["activation"] in ("relu", "gelu", "relu2")]
    exotic = ("GLM-130B",)
    return [
        equal(
            "models in the table, each once",
            len(rows),
            len({row["model"] for row in rows}),
            note=f"{compared} compared with a public configuration, the others as their report is known",
        ),
        share(
            "no norm on the residual stream, 2019 and later",
            "placement",
            lambda p: p != "post",
            threshold=0.95,
            since=2019,
            note=f"Exception: {', '.join(exotic)} (DeepNorm).",
        ),
        share(
            "norm on both sides or on the output, 2024 and later",
            "placement",
            lambda p: p in ("double", "output"),
            threshold=0.1,
            since=2024,
        ),
        share("RMSNorm, 2023 and later", "norm", lambda n: n == "rmsnorm", threshold=0.6, since=2023),
        share("serial blocks, 2023 and later", "block", lambda b: b == "serial", threshold=0.75, since=2023),
        share(
            "rotary positions, at least in part, 2024 and later",
            "position",
            lambda p: p in ("rope", "hybrid"),
            threshold=0.9,
            since=2024,
        ),
        share(
            "no rotary positions before 2023", "position", lambda p: p != "rope", threshold=0.5, until=2022
        ),
        share(
            "gated feed-forward layers, 2023 and later",
            "activation",
            lambda a: a in GATED,
            threshold=0.75,
            since=2023,
        ),
        at_least(
            "models of 2023 and later that are not gated",
            1,
            sum(r["year"] >= 2023 and r["activation"] in ("gelu", "relu2") for r in rows),
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
            sum(abs(v - 1) < 1e-9 for v in heads.values()) / len(heads),
            notes="holds",
            note="T5 11B 16, LaMDA 2, Gemma 7B 1.33; PaLM 0.67, see below",
        ),
        close(
            "PaLM's heads x head size / d_model",
            48 * 256 / 18432,
            heads["PaLM 540B"],
            note="the course's table prints 1.48",
        ),
        at_least(
            "share of models with d_model / layers from 100 to 200, most of them",
            0.5,
            rounded(sum(100 <= v <= 200 for v in aspect.values()) / len(aspect), 3),
            notes="holds",
            note=f"median {median(list(aspect.values())):.0f}; T5 11B {aspect['T5 11B']:.0f} is the deep outlier",
        ),
        equal(
            "T5 11B and T5 v1.1: d_ff / d_model",
            [64.0, 2.5],
            [ratio["T5 11B"], ratio["T5 v1.1 XXL"]],
            notes="holds",
        ),
        share(
            "weight decay of 0.1 where it is published, 2022 and later",
            "weight_decay",
            lambda w: w == 0.1,
            threshold=0.75,
            since=2022,
        ),
        share(
            "dropout 0 where it is published, 2022 and later",
            "dropout",
            lambda d: d == 0,
            threshold=0.75,
            since=2022,
            note="most reports of later years don't mention it",
        ),
    ]


CLAIMS: dict[str, Checks] = {"survey-consensus": consensus}
