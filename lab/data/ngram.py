"""How well does counting do? Interpolated Witten-Bell n-grams on token shards, the line a model has to beat.

    p_n(w | h) = (c(h w) + T(h) p_{n-1}(w | h')) / (c(h) + T(h)),      p_0(w) = 1 / V

h: the last n - 1 tokens, h' without its first; c: training counts; T(h): how many different tokens
followed h (Witten & Bell 1991, method C; interpolated as in Chen & Goodman 1998, section 2.4). An unseen h
leaves p_{n-1}. Every document starts with `<|endoftext|>`, which is context only, and contexts never reach
across documents; the closing `<|endoftext|>` is predicted. The text is what models are scored on: the
first validation documents, whole.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lab.config.strict import plain, read
from lab.data.evaluation import scored_documents, scored_rows
from lab.data.shards import END_OF_TEXT_ID, Shards

UNSEEN = -1
ORDERS = (1, 2, 3, 4, 5)
VERSION = 3  # raised by hand when the counting changes
MOST_TOKENS = 20_000_000  # counting these takes half a minute and 2 GB


@dataclass(frozen=True)
class NgramLine:
    """How well the n-grams of one order predict: bits per UTF-8 byte of text, nats per token, and the
    excess over the floor in bits a word of each skill, where the corpus has a floor.

    counted_tokens: of the training stream; all of them, or its first documents where there are more than 20
    million.
    """

    order: int
    counted_tokens: int
    bpb: float
    nats_per_token: float
    skills: dict[str, float]


@dataclass(frozen=True)
class KeptLines:
    """The file beside the shards that keeps the lines, and the version of the counting that they are from."""

    version: int
    baselines: list[NgramLine]


def baseline(
    shards: Shards, *, orders: Sequence[int], documents: int | None, context_length: int
) -> list[NgramLine]:
    """Per order, the loss on the first `documents` validation documents (None: on all); of the skills, on
    the words that a model of context_length is judged by.
    """
    validation = shards.validation_stream
    if documents is not None and documents < len(shards.validation_documents):
        validation = validation[: shards.validation_documents[documents] + 1]
    training = shards.train_stream
    if len(training) > MOST_TOKENS:
        ends = np.append(shards.train_documents[1:], len(training) - 1)
        last = max(0, int(np.searchsorted(ends, MOST_TOKENS)) - 1)
        training = training[: int(ends[last]) + 1]
    nats = witten_bell(training, validation, order=max(orders), vocab_size=shards.vocab_size)
    scored_bytes = int(shards.token_bytes[validation].sum())
    total_bits = nats.sum(axis=1) / np.log(2)
    return [
        NgramLine(
            order=order,
            counted_tokens=len(training),
            bpb=float(total_bits[order - 1] / scored_bytes),
            nats_per_token=float(nats[order - 1].mean()),
            skills=_skill_excess(shards, nats[order - 1], context_length),
        )
        for order in orders
    ]


def _skill_excess(shards: Shards, nats: np.ndarray, context_length: int) -> dict[str, float]:
    """Bits a word of each skill beyond its exact surprisal. A word's tokens are summed as they are."""
    total, words = np.zeros(len(shards.skills)), np.zeros(len(shards.skills))
    for _, first, _, exact in scored_rows(shards, context_length, len(shards.validation_documents)):
        if not first < exact <= len(nats):
            continue
        skill = shards.validation_skill[first + 1 : exact + 1]
        floor = shards.validation_floor[first + 1 : exact + 1]
        excess = (nats[first:exact] - np.nan_to_num(floor)) / np.log(2)
        total += np.bincount(skill, excess, minlength=len(total))
        words += np.bincount(skill[~np.isnan(floor)], minlength=len(words))
    return {name: float(t / n) for name, t, n in zip(shards.skills, total, words, strict=True) if n}


def baselines(
    folder: Path, *, documents: int, context_length: int, most_bytes: int | None = None
) -> list[NgramLine]:
    """The baselines of the shards in `folder`, orders 1 to 5, on the documents that `scored_documents` says;
    counted once and kept beside the shards.
    """
    if most_bytes is not None:
        documents = scored_documents(Shards.open(folder), documents=documents, most_bytes=most_bytes)
    path = folder / f"ngram-{documents}-{context_length}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    if kept.get("version") == VERSION:
        return read(KeptLines, kept, source=f"{path}", fix="Remove the file.").baselines
    lines = baseline(Shards.open(folder), orders=ORDERS, documents=documents, context_length=context_length)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(plain(KeptLines(VERSION, lines)), indent=1))
    temporary.replace(path)
    return lines


def witten_bell(train: np.ndarray, validation: np.ndarray, *, order: int, vocab_size: int) -> np.ndarray:
    """float64 [order, len(validation) - 1]: -ln p_n of each validation token but the first, for n = 1 ...
    order.

    Both arguments are streams: `<|endoftext|>` before each document and once more at the end.
    """
    train, validation = train.astype(np.int64), validation.astype(np.int64)
    targets, validation_targets = train[1:], validation[1:]
    contexts, validation_contexts = np.zeros_like(targets), np.zeros_like(validation_targets)
    num_contexts = 1
    probability = np.full(len(validation_targets), 1.0 / vocab_size)
    nats = np.empty((order, len(validation_targets)))
    for length in range(order):
        if length == 1:
            contexts, validation_contexts, num_contexts = train[:-1], validation[:-1], vocab_size
        # A context has a number, so an n-gram of any length is one number too: (context, token).
        inside = contexts != UNSEEN
        grams, gram_of_target, counts = np.unique(
            contexts[inside] * vocab_size + targets[inside], return_inverse=True, return_counts=True
        )
        occurrences = np.bincount(grams // vocab_size, weights=counts, minlength=num_contexts)
        followers = np.bincount(grams // vocab_size, minlength=num_contexts)

        seen = validation_contexts != UNSEEN
        seen[seen] = followers[validation_contexts[seen]] > 0
        context = validation_contexts[seen]
        gram = _find(context * vocab_size + validation_targets[seen], grams)
        count = np.where(gram == UNSEEN, 0, counts[gram])
        probability[seen] = (count + followers[context] * probability[seen]) / (
            occurrences[context] + followers[context]
        )
        nats[length] = -np.log(probability)

        contexts = _next_contexts(gram_of_target, inside, train)
        validation_contexts = _next_contexts(gram, seen, validation)
        num_contexts = len(grams)
    return nats


def _find(values: np.ndarray, ascending: np.ndarray) -> np.ndarray:
    """The index of each value in `ascending`, UNSEEN where it isn't there."""
    index = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.where(ascending[index] == values, index, UNSEEN)


def _next_contexts(gram: np.ndarray, where: np.ndarray, stream: np.ndarray) -> np.ndarray:
    """The contexts one token longer: what ends at a token precedes the next, unless a document starts
    between.
    """
    ending_here = np.full(len(where), UNSEEN)
    ending_here[where] = gram
    contexts = np.concatenate(([UNSEEN], ending_here[:-1]))
    contexts[stream[:-1] == END_OF_TEXT_ID] = UNSEEN
    return contexts
