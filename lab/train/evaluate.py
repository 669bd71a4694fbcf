"""Validation loss in nats a token and in bits a byte of original text; where the corpus's floor is known,
the excess over it.

A model's surprisal of a word is summed over its tokens, and that the word ends there belongs to it too,
though a tokenizer which begins tokens with white space pays for that in the next token (Pimentel & Meister
2024, arXiv:2406.14561). So the event is the one whose probability the story generator knows, and skills
sum to the total. The mean excess is a Kullback-Leibler divergence: below zero by more than chance,
validation text has leaked into training or a sum is wrong.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from lab.data.evaluation import MOST_LANGUAGES, ChoiceBatch, EvaluationBatch
from lab.data.shards import NO_SKILL, Shards
from lab.store.run_record import SkillSummary
from lab.train.surprisal import Surprisal, end_nats, surprisal

LEAK_STANDARD_ERRORS = 3.0
GROUPS = 32  # of documents; as many as a published line has room for
GROUP_DIGITS = 6
EVALUATED = (  # by every evaluation; languages and skills come on top
    "val/loss",
    "val/bpb",
    "val/bytes",
    "val/entropy",
    "val/exact_bytes",
    "val/excess_bpb",
    "val/excess_error",
    "val/floor_bpb",
)

Forward = Callable[..., Any]


@dataclass(frozen=True)
class TextScore:
    """What an evaluation found. values: by their names, see `evaluate`.

    group_bpb, group_excess_bpb: val/bpb and val/excess_bpb of each group of documents, which are those of
    equal number modulo 32; fewer groups where fewer documents are scored, none of the excess where no floor
    is known. Two models scored on the same text have the same groups, whose differences say how much the
    text's sampling matters.
    """

    values: dict[str, float | int | None]
    group_bpb: tuple[float, ...]
    group_excess_bpb: tuple[float, ...] | None


@torch.no_grad()
def evaluate(
    forward: Forward,
    batches: Sequence[EvaluationBatch],
    shards: Shards,
    *,
    device: str,
    autocast: AbstractContextManager,
) -> TextScore:
    """Plain cross-entropy with nothing dropped.

    Values: val/loss and val/entropy of the predictions (nats a token), val/bpb and val/bytes are over every
    scored token, val/bpb/<language> over those of one language. Over the exact part of val/exact_bytes, in
    bits a byte of it, None where there is none: val/floor_bpb, val/excess_bpb, val/excess_error (its standard
    error over stories) and val/excess/<skill>, which sum to val/excess_bpb.
    """
    nats_of_row, excess_of_row = [], []
    excess_of_skill = np.zeros(len(shards.skills))
    tokens, floor, entropy = 0, 0.0, 0.0
    starts_word = torch.from_numpy(shards.starts_word).to(device)
    for batch in batches:
        rows = torch.from_numpy(batch.tokens).to(device)
        with autocast:
            logits = forward(rows[:, :-1]).logits
        costs = surprisal(logits, rows[:, 1:], starts_word)
        nats_of_row.append((costs.token * batch.scored).sum(axis=1))
        entropy += float(costs.entropy[batch.scored].sum())
        tokens += int(batch.scored.sum())
        exact = batch.skill != NO_SKILL
        excess = _word_nats(costs, batch, shards) - np.nan_to_num(batch.floor)
        excess_of_skill += np.bincount(batch.skill[exact], excess[exact], minlength=len(shards.skills))
        excess_of_row.append(excess.sum(axis=1))
        floor += float(np.nansum(batch.floor))
    row_nats, row_excess = np.concatenate(nats_of_row), np.concatenate(excess_of_row)
    row_bytes = np.concatenate([batch.bytes for batch in batches])
    row_exact = np.concatenate([batch.exact_bytes for batch in batches])
    row_document = np.concatenate([batch.document for batch in batches])
    row_language = np.concatenate([batch.language for batch in batches])
    exact_bytes = int(row_exact.sum())
    values: dict[str, float | int | None] = dict.fromkeys(EVALUATED)
    values |= {
        "val/loss": float(row_nats.sum()) / tokens,
        "val/bpb": float(row_nats.sum()) / (math.log(2) * int(row_bytes.sum())),
        "val/bytes": int(row_bytes.sum()),
        "val/entropy": entropy / tokens,
        "val/exact_bytes": exact_bytes or None,
    }
    if exact_bytes:
        bits, of_story = math.log(2) * exact_bytes, row_excess[row_exact > 0]
        error = float(of_story.std(ddof=1)) * math.sqrt(len(of_story)) if len(of_story) > 1 else None
        values |= {
            "val/excess_bpb": float(of_story.sum()) / bits,
            "val/excess_error": None if error is None else error / bits,
            "val/floor_bpb": floor / bits,
        }
        values |= {
            f"val/excess/{name}": float(nats) / bits
            for name, nats in zip(shards.skills, excess_of_skill, strict=True)
        }
    sizes = np.bincount(row_language[row_language >= 0], row_bytes[row_language >= 0])
    for index in np.argsort(-sizes, kind="stable")[:MOST_LANGUAGES]:
        if sizes[index]:
            bits = math.log(2) * sizes[index]
            values[f"val/bpb/{shards.languages[index]}"] = float(row_nats[row_language == index].sum() / bits)
    return TextScore(
        values,
        group_bpb=_by_group(row_document, row_nats, row_bytes),
        group_excess_bpb=_by_group(row_document, row_excess, row_exact) if exact_bytes else None,
    )


def _by_group(document: np.ndarray, nats: np.ndarray, sizes: np.ndarray) -> tuple[float, ...]:
    """Bits a byte of each group, from the document, the nats and the bytes of each row; a group without bytes
    is left out.
    """
    of_group = np.bincount(document % GROUPS, sizes)
    bits = np.bincount(document % GROUPS, nats)[of_group > 0] / math.log(2)
    return tuple(float(f"{value:.{GROUP_DIGITS}g}") for value in bits / of_group[of_group > 0])


def _word_nats(costs: Surprisal, batch: EvaluationBatch, shards: Shards) -> np.ndarray:
    """float64 [rows, T + 1]: what each token of the exact part costs, that a word ends counted at its own
    last token.
    """
    nats = np.pad(costs.token, ((0, 0), (1, 0))) * (batch.skill != NO_SKILL)
    row, position = np.nonzero(shards.starts_word[batch.tokens[:, 1:]] & (batch.skill[:, :-1] != NO_SKILL))
    boundary = costs.end[row, position]
    nats[row, position] += boundary
    continues = batch.skill[row, position + 1] != NO_SKILL
    nats[row[continues], position[continues] + 1] -= boundary[continues]
    return nats


@torch.no_grad()
def forced_choices(
    forward: Forward,
    batches: Sequence[ChoiceBatch],
    shards: Shards,
    *,
    device: str,
    autocast: AbstractContextManager,
) -> dict[str, float]:
    """Per skill, how often the true continuation has the higher probability; a tie counts half. Chance is
    0.5.
    """
    right, asked = np.zeros(len(shards.skills)), np.zeros(len(shards.skills))
    starts_word = torch.from_numpy(shards.starts_word).to(device)
    for batch in batches:
        rows = torch.from_numpy(batch.tokens).to(device)
        with autocast:
            logits = forward(rows).logits
        index = np.arange(1, batch.tokens.shape[1])
        row, before = np.nonzero((index >= batch.start[:, None]) & (index < batch.end[:, None]))
        losses = F.cross_entropy(logits[row, before].float(), rows[row, before + 1], reduction="none")
        ends = end_nats(logits[np.arange(len(rows)), batch.end - 1].float(), starts_word)
        costs = np.bincount(row, losses.double().cpu().numpy()) + ends.double().cpu().numpy()
        truth, other = costs[::2], costs[1::2]
        right += np.bincount(batch.skill, (truth < other) + 0.5 * (truth == other), len(shards.skills))
        asked += np.bincount(batch.skill, minlength=len(shards.skills))
    return {name: float(r / n) for name, r, n in zip(shards.skills, right, asked, strict=True) if n}


def skill_table(
    evaluated: dict[str, Any],
    accuracies: dict[str, float],
    batches: Sequence[EvaluationBatch],
    shards: Shards,
) -> dict[str, SkillSummary]:
    """Per skill: words, floor and excess in bits a word of this skill, and forced-choice accuracy."""
    words, floors = np.zeros(len(shards.skills)), np.zeros(len(shards.skills))
    for batch in batches:
        ends = ~np.isnan(batch.floor)
        words += np.bincount(batch.skill[ends], minlength=len(words))
        floors += np.bincount(batch.skill[ends], batch.floor[ends], minlength=len(words)) / math.log(2)
    exact_bytes = evaluated["val/exact_bytes"]
    return {
        name: SkillSummary(
            words=int(count),
            floor=float(floor / count),
            excess=evaluated[f"val/excess/{name}"] * exact_bytes / float(count),
            accuracy=accuracies.get(name),
        )
        for name, count, floor in zip(shards.skills, words, floors, strict=True)
        if count
    }


def leak(evaluated: dict[str, Any]) -> str | None:
    """Why an excess can't be: it lies more than 3 standard errors below zero."""
    excess, error = evaluated["val/excess_bpb"], evaluated["val/excess_error"]
    if not error or excess >= -LEAK_STANDARD_ERRORS * error:
        return None
    return (
        f"the excess over the floor is {excess:.4f} bits a byte, "
        f"{-excess / error:.1f} standard errors below zero: "
        "validation text has leaked into training, or the evaluation is wrong"
    )
