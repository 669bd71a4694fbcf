"""Which text does an evaluation score, and what could it cost at best? Rows of validation documents and
forced choices.

Whole documents are scored, so under every tokenizer the same UTF-8 bytes. For stories, whose words have an
exact surprisal, the exact part is the whole words of a story's first row: further rows don't show the
model the text before them, which the surprisal is conditioned on. Needs numpy only: training workers read
this.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lab.data.shards import END_OF_TEXT_ID, NO_SKILL, Shards

MOST_SHAPES = 16  # lengths of rows that are met: few, and little is padding
MOST_LANGUAGES = 12


@dataclass(frozen=True)
class EvaluationBatch:
    """tokens int64 [rows, T + 1], T <= context_length; scored bool [rows, T]: is the prediction of
    tokens[:, t + 1] counted?

    document, bytes, language int64 [rows]: the document's number, the UTF-8 bytes scored, and the index of
    their language or -1. skill uint8 [rows, T + 1]: of the word that a token of the exact part belongs to,
    NO_SKILL outside; floor float64 [rows, T + 1]: surprisal in nats of the word that ends at a token of the
    exact part, NaN elsewhere. exact_bytes int64 [rows]: UTF-8 bytes of the exact part.
    """

    tokens: np.ndarray
    scored: np.ndarray
    document: np.ndarray
    bytes: np.ndarray
    language: np.ndarray
    skill: np.ndarray
    floor: np.ndarray
    exact_bytes: np.ndarray


@dataclass(frozen=True)
class ChoiceBatch:
    """Pairs of rows, first with the true continuation, then with the other: tokens int64 [2 pairs, length].

    start, end int64 [2 pairs]: the continuation is tokens[start:end]. skill uint8 [pairs].
    """

    tokens: np.ndarray
    start: np.ndarray
    end: np.ndarray
    skill: np.ndarray


class ScoredRow(NamedTuple):
    """A row that an evaluation scores: its document's number, and its first, its last scored and its last
    exact token in the validation stream.
    """

    document: int
    first: int
    last: int
    exact: int


class ForcedChoice(NamedTuple):
    """Two rows of tokens that are equal before `start`: the one goes on as the text does, the other as the
    grammar forbids. length: of the longer one.
    """

    start: int
    length: int
    skill: int
    truth: np.ndarray
    other: np.ndarray


def scored_documents(shards: Shards, *, documents: int, most_bytes: int | None) -> int:
    """How many validation documents are scored: of the first `documents` as many as have `most_bytes` of
    UTF-8 text together, and one at least. They are the same under every tokenizer.
    """
    starts = shards.validation_documents[: documents + 1]
    documents = min(documents, len(shards.validation_documents))
    if most_bytes is None:
        return documents
    end = int(starts[documents]) if documents < len(starts) else len(shards.validation_stream) - 1
    sizes = np.add.reduceat(shards.token_bytes[shards.validation_stream[:end]], starts[:documents])
    return max(1, int(np.searchsorted(np.cumsum(sizes, dtype=np.int64), most_bytes, side="right")))


def scored_tokens(shards: Shards, *, documents: int, most_bytes: int | None) -> int:
    """How many tokens an evaluation scores."""
    last = scored_documents(shards, documents=documents, most_bytes=most_bytes)
    if last < len(shards.validation_documents):
        return int(shards.validation_documents[last])
    return len(shards.validation_stream) - 1


def evaluation_batches(
    shards: Shards, context_length: int, *, documents: int, rows: int
) -> list[EvaluationBatch]:
    """The first `documents` validation documents, each scored whole, in rows padded with unscored
    <|endoftext|>.

    A row holds one document or part of one: a longer document continues in further rows. Its closing
    <|endoftext|> is scored too, and stands for 0 bytes. Rows of like length stand together, so that little
    is padding.
    """
    found = sorted(scored_rows(shards, context_length, documents), key=lambda row: row.first - row.last)
    chunks = [found[i : i + rows] for i in range(0, len(found), rows)]
    return [_evaluation_batch(shards, chunk, context_length) for chunk in chunks]


def scored_rows(shards: Shards, context_length: int, documents: int) -> list[ScoredRow]:
    """The rows of the first `documents` validation documents, each cut into pieces of context_length."""
    starts = shards.validation_documents[:documents].tolist()
    ends = [*shards.validation_documents[1 : documents + 1].tolist(), len(shards.validation_stream) - 1]
    found = []
    for document, (start, end) in enumerate(zip(starts, ends, strict=False)):
        for first in range(start, end, context_length):
            last = min(first + context_length, end)
            exact = _last_word_end(shards, first, last) if first == start else first
            found.append(ScoredRow(document, first, last, exact))
    return found


def _last_word_end(shards: Shards, first: int, last: int) -> int:
    """The last token after `first` that ends a word and has another after it; `first` if there is none."""
    if not shards.skills:
        return first
    known = np.flatnonzero(~np.isnan(shards.validation_floor[first + 1 : last]))
    return first + 1 + int(known[-1]) if len(known) else first


def _evaluation_batch(shards: Shards, chunk: list[ScoredRow], context_length: int) -> EvaluationBatch:
    length = _padded(max(row.last - row.first for row in chunk), context_length)
    rows = len(chunk)
    tokens = np.full((rows, length + 1), END_OF_TEXT_ID, dtype=np.int64)
    scored = np.zeros((rows, length), dtype=bool)
    skill = np.full(tokens.shape, NO_SKILL, dtype=np.uint8)
    floor = np.full(tokens.shape, np.nan)
    document = np.array([row.document for row in chunk])
    for row, (_, first, last, exact) in enumerate(chunk):
        tokens[row, : last - first + 1] = shards.validation_stream[first : last + 1]
        scored[row, : last - first] = True
        if exact > first:
            skill[row, 1 : exact - first + 1] = shards.validation_skill[first + 1 : exact + 1]
            floor[row, 1 : exact - first + 1] = shards.validation_floor[first + 1 : exact + 1]
    sizes = shards.token_bytes[tokens]
    return EvaluationBatch(
        tokens,
        scored,
        document,
        (sizes[:, 1:] * scored).sum(axis=1),
        shards.validation_language[document].astype(np.int64),
        skill,
        floor,
        exact_bytes=(sizes * (skill != NO_SKILL)).sum(axis=1),
    )


def choice_batches(
    shards: Shards, context_length: int, *, choices: int, documents: int, rows: int
) -> list[ChoiceBatch]:
    """At most `choices` forced choices of each skill, spread over the first `documents` validation documents.

    Those whose story, up to the end of the choice, fits a row; short rows together.
    """
    if not shards.skills or not choices:
        return []
    picked: list[ForcedChoice] = []
    for skill in range(len(shards.skills)):
        fitting = [
            choice for choice in _choices_of(shards, skill, documents) if choice.length <= context_length
        ]
        every = max(1.0, len(fitting) / choices)
        picked += [fitting[int(i * every)] for i in range(min(choices, len(fitting)))]
    picked.sort(key=lambda choice: choice.length)
    pairs = max(1, rows // 2)
    return [_choice_batch(picked[i : i + pairs], context_length) for i in range(0, len(picked), pairs)]


def _choices_of(shards: Shards, skill: int, documents: int) -> list[ForcedChoice]:
    document = np.searchsorted(shards.validation_documents, shards.choices[:, 0], side="right") - 1
    wanted = (shards.choices[:, 1] == skill) & (document < documents)
    starts = shards.validation_documents[document[wanted]].tolist()
    found = []
    for first, (position, _, true_length, offset, length) in zip(
        starts, shards.choices[wanted].tolist(), strict=True
    ):
        truth = shards.validation_stream[first : position + true_length]
        other = np.concatenate((truth[: position - first], shards.choice_tokens[offset : offset + length]))
        longest = max(len(truth), len(other))
        found.append(ForcedChoice(position - first, longest, skill, truth, other))
    return found


def _choice_batch(picked: list[ForcedChoice], context_length: int) -> ChoiceBatch:
    length = _padded(max(choice.length for choice in picked), context_length)
    sequences = [sequence for choice in picked for sequence in (choice.truth, choice.other)]
    tokens = np.full((len(sequences), length), END_OF_TEXT_ID, dtype=np.int64)
    for row, sequence in enumerate(sequences):
        tokens[row, : len(sequence)] = sequence
    return ChoiceBatch(
        tokens,
        start=np.array([choice.start for choice in picked]).repeat(2),
        end=np.array([len(sequence) for sequence in sequences]),
        skill=np.array([choice.skill for choice in picked], dtype=np.uint8),
    )


def _padded(length: int, most: int) -> int:
    """At least `length` tokens: a multiple of a sixteenth of `most`, or `most` itself."""
    step = max(1, most // MOST_SHAPES)
    return min(most, math.ceil(length / step) * step)
