"""How well does counting do? Interpolated Witten-Bell n-grams on token shards, the line a model has to beat.

    p_n(w | h) = (c(h w) + T(h) p_{n-1}(w | h')) / (c(h) + T(h)),      p_0(w) = 1 / V

h: the last n - 1 tokens, h' without its first; c: training counts; T(h): how many different tokens followed h
(Witten & Bell 1991, method C; interpolated as in Chen & Goodman 1998, section 2.4). An unseen h leaves p_{n-1}.
Every document starts with `<|endoftext|>`, which is context only, and contexts never reach across documents; the
closing `<|endoftext|>` is predicted.
"""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from lab.data.shards import END_OF_TEXT_ID, Shards

UNSEEN = -1


class Baseline(TypedDict):
    order: int
    bpb: float
    nats_per_token: float


def baseline(shards: Shards, *, orders: Sequence[int]) -> list[Baseline]:
    """Per order, the loss on all validation documents, in bits per UTF-8 byte and in nats per token."""
    nats = witten_bell(
        shards.train_stream, shards.validation_stream, order=max(orders), vocab_size=shards.vocab_size
    )
    total_bits = nats.sum(axis=1) / np.log(2)
    return [
        {
            "order": order,
            "bpb": float(total_bits[order - 1] / shards.validation_bytes),
            "nats_per_token": float(nats[order - 1].mean()),
        }
        for order in orders
    ]


def witten_bell(train: np.ndarray, validation: np.ndarray, *, order: int, vocab_size: int) -> np.ndarray:
    """float64 [order, len(validation) - 1]: -ln p_n of each validation token but the first, for n = 1 ... order.

    Both arguments are streams: `<|endoftext|>` before each document and once more at the end.
    """
    train, validation = train.astype(np.int64), validation.astype(np.int64)
    # The n-gram that ends at each token has an id: the context of the next one. The empty context is 0.
    context = np.zeros(len(train) - 1, dtype=np.int64)
    context_of_validation = np.zeros(len(validation) - 1, dtype=np.int64)
    probability = np.full(len(validation) - 1, 1.0 / vocab_size)
    nats = np.empty((order, len(validation) - 1))
    for n in range(order):
        # A pair (context, next token) is one number, so sorting numbers counts n-grams of any length.
        inside = context != UNSEEN
        pairs = context[inside] * vocab_size + train[1:][inside]
        grams, gram_of_pair, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        contexts = grams // vocab_size
        followers = np.bincount(contexts)
        occurrences = np.bincount(contexts, weights=counts)

        gram = _find(grams, context_of_validation, validation[1:], vocab_size)
        count = np.where(gram == UNSEEN, 0, counts[gram])
        known = context_of_validation
        known = np.where((known == UNSEEN) | (known >= len(followers)), UNSEEN, known)
        distinct = np.where(known == UNSEEN, 0, followers[known])
        total = np.where(known == UNSEEN, 0, occurrences[known]) + distinct
        seen = total > 0
        probability[seen] = (count[seen] + distinct[seen] * probability[seen]) / total[seen]
        nats[n] = -np.log(probability)
        if n + 1 < order:
            ids = np.full(len(context), UNSEEN)
            ids[inside] = gram_of_pair
            context = _next_context(ids, train, len(grams), first=n == 0)
            context_of_validation = _next_context(gram, validation, len(grams), first=n == 0)
    return nats
