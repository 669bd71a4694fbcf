"""Which training documents are nearly a validation document, word for word, so that a score would reward memory?

Nearly equal: the sets of their 12-character shingles, case and white space aside, have a Jaccard similarity of 0.4 or
more (Broder 1997). Copies with a tenth of their words replaced keep 0.49 or more in stories of seven languages; of unrelated
TinyStories no pair exceeds 0.2, and no two chapters of the Gospels, which retell each other, 0.27. Short
documents are not compared: everyday sentences resemble each other. Candidates share enough of a sample of their shingles,
then all shingles are compared. Memory: one and a half bytes a character of validation text, and one batch of documents.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from lab.config import ConfigError
from lab.data.corpus import Document, Documents

VERSION = 1  # raised by hand when other documents are found
SHINGLE = 12
SIMILAR = 0.4
SHORTEST = 200  # characters
SAMPLED = 8  # one shingle in so many is in the index
MOST_OWNERS = 8  # a shingle stands for so many validation documents at most: "once upon a time" for all would cost too much
BATCH_DOCUMENTS, BATCH_CHARACTERS = 500, 1_000_000
MOST_SHARE = 0.01


class NearDuplicates:
    """Separates a training set from `validation`: drops near duplicates of it, or only counts them."""

    def __init__(self, validation: Sequence[Document], *, drop: bool) -> None:
        self._validation, self._drop = validation, drop
        self._index = Index([document.text for document in validation])
        self._dropped = 0
        self._found: dict[int, Document] = {}

    def separate(self, training: Documents) -> Documents:
        """Passes training documents through. Raises ConfigError at their end if too many are kept."""
        for batch in _batches(training):
            for document, near in zip(batch, self._index.find([d.text for d in batch]), strict=True):
                for number in near:
                    self._found.setdefault(number, document)
                if near and self._drop:
                    self._dropped += 1
                else:
                    yield document
        if not self._drop and len(self._found) > MOST_SHARE * len(self._validation):
            raise ConfigError(
                f"data.validation_path: {len(self._found)} of {len(self._validation)} validation documents nearly "
                f"equal a training document (first: {self._first()}). Remove them from one of the two."
            )

    def summary(self) -> dict[str, Any]:
        """For the record, once all training documents are through."""
        return {
            "similar": SIMILAR,
            "validation_documents": len(self._found),
            "training_documents_dropped": self._dropped,
            "first": self._first() if self._found else None,
        }

    def _first(self) -> str:
        number, document = next(iter(self._found.items()))
        return f"{self._validation[number].place} and {document.place}"


class Index:
    """The sampled shingles of texts, each with the texts that hold it."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        shingle, owner = _sampled([_codes(text) for text in texts])
        # By shingle, then by owner; the first owners of each shingle stay.
        pairs = np.unique(shingle.astype(np.uint64) << np.uint64(32) | owner.astype(np.uint64))
        shingle, owner = (pairs >> np.uint64(32)).astype(np.uint32), (pairs & np.uint64(2**32 - 1)).astype(np.int64)
        earlier = np.arange(len(shingle)) - np.searchsorted(shingle, shingle)
        self._sizes = np.bincount(owner, minlength=len(texts))
        self._shingles, self._owners = shingle[earlier < MOST_OWNERS], owner[earlier < MOST_OWNERS]

    def find(self, texts: Sequence[str]) -> list[list[int]]:
        """For each text, the indexed texts that it nearly equals."""
        codes = [_codes(text) for text in texts]
        shingle, text = _sampled(codes)
        sizes = np.bincount(text, minlength=len(texts))
        start = np.searchsorted(self._shingles, shingle)
        count = np.searchsorted(self._shingles, shingle, side="right") - start
        entry = np.repeat(start - np.cumsum(count) + count, count) + np.arange(count.sum())
        pairs, shared = np.unique(
            np.repeat(text, count) * len(self._texts) + self._owners[entry], return_counts=True
        )
        asked, owner = np.divmod(pairs, max(1, len(self._texts)))
        # At the least similarity S, S / (1 + S) of both sizes together are shared; a third of that is worth a look.
        expected = SIMILAR / (1 + SIMILAR) * (sizes[asked] + self._sizes[owner])
        found: list[list[int]] = [[] for _ in texts]
        for i, j in zip(*(x[shared > expected / 3].tolist() for x in (asked, owner)), strict=True):
            if similarity(_shingles(codes[i]), _shingles(_codes(self._texts[j]))) >= SIMILAR:
                found[i].append(j)
        return found


def similarity(a: np.ndarray, b: np.ndarray) -> float:
    """Jaccard: the share of two sorted sets' union that both hold."""
    shared = len(np.intersect1d(a, b, assume_unique=True))
    return shared / (len(a) + len(b) - shared)


def _batches(documents: Documents) -> Iterator[list[Document]]:
    batch: list[Document] = []
    characters = 0
    for document in documents:
        batch.append(document)
        characters += len(document.text)
        if len(batch) == BATCH_DOCUMENTS or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    yield batch


def _codes(text: str) -> np.ndarray:
    """uint32: the code points of a text, case and white space normalised; none of a short one."""
    plain = " ".join(text.casefold().split())
    return np.frombuffer(plain.encode("utf-32-le") if len(plain) >= SHORTEST else b"", dtype="<u4")


def _shingles(codes: np.ndarray) -> np.ndarray:
    return np.unique(_hashes(codes))


def _sampled(texts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The hashes of a fixed sample of all shingles, and the index of the text that each is in."""
    if not texts:
        return np.empty(0, np.uint32), np.empty(0, np.int64)
    ends = np.cumsum([len(codes) for codes in texts])
    hashes = _hashes(np.concatenate(texts))
    position = np.flatnonzero(hashes % SAMPLED == 0)
    text = np.searchsorted(ends, position, side="right")
    inside = position + SHINGLE <= ends[text]
    return hashes[position[inside]], text[inside]


def _hashes(codes: np.ndarray) -> np.ndarray:
    """uint32: a hash of every 12 neighbouring code points."""
    if len(codes) < SHINGLE:
        return np.empty(0, np.uint32)
    one = _mix(codes)
    two = one[:-1] * np.uint32(0x9E3779B1) + one[1:]
    four = two[:-2] * np.uint32(0x85EBCA77) + two[2:]
    eight = four[:-4] * np.uint32(0xC2B2AE3D) + four[4:]
    return _mix(eight[:-4] * np.uint32(0x27D4EB2F) + four[8:])


def _mix(values: np.ndarray) -> np.ndarray:
    """MurmurHash3's last step (Appleby 2011)."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))
