"""Which tokens does step n read, and which text does an evaluation score? Token shards, memory-mapped.

A stream is a run of documents, `<|endoftext|>` (id 0) before each and once more at the end of the file.
Training rows are a pure function of (step, seed). Evaluation scores whole documents, so under every tokenizer the same
UTF-8 bytes; for corpora of known probability it knows the floor in nats of the part it can be compared with.
Needs numpy only: training workers read this.
"""

import functools
import hashlib
import json
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FORMAT_VERSION = 1
END_OF_TEXT_ID = 0


class ShardError(ValueError):
    """A folder holds no shards of this format, or they are damaged."""


def token_dtype(vocab_size: int) -> np.dtype:
    """The smallest type that holds every id; little-endian on disk."""
    return np.dtype("<u2" if vocab_size <= 2**16 else "<u4")


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def meta_checksum(meta: dict[str, Any]) -> str:
    """What meta.json holds as "checksum", besides `meta`."""
    return hashlib.sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class EvaluationBatch:
    """tokens int64 [rows, T + 1]; scored bool [rows, T]: is the prediction of tokens[:, t + 1] counted?

    exact bool [rows, T]: the scored tokens whose surprisal is known, floor_nats their sum (None where the corpus has no
    floor). bytes, exact_bytes: UTF-8 bytes of the scored and of the exact tokens.
    """

    tokens: np.ndarray
    scored: np.ndarray
    exact: np.ndarray
    bytes: int
    exact_bytes: int
    floor_nats: float | None


@functools.lru_cache(maxsize=4)
def _epoch_order(num_rows: int, seed: int, epoch: int) -> np.ndarray:
    """A permutation from (seed, epoch) alone. Raw bits stay equal across numpy versions; `permutation` may not."""
    raw = np.random.PCG64(np.random.SeedSequence((seed, epoch))).random_raw(num_rows)
    return np.argsort(raw, kind="stable")


class Shards:
    """Token shards of one corpus under one tokenizer. Read-only."""

    def __init__(self, path: Path, meta: dict[str, Any]) -> None:
        self.path = path
        self._meta = meta
        self.vocab_size: int = meta["vocab_size"]
        self.fingerprint: str = meta["fingerprint"]
        self.train_tokens: int = meta["train"]["tokens"]
        self.train_bytes: int = meta["train"]["bytes"]
        self.validation_bytes: int = meta["validation"]["bytes"]
        self.bytes_per_token: float = self.train_bytes / self.train_tokens
        self.unigram_bpb: float = meta["unigram_bpb"]
        self.has_floor: bool = meta["has_floor"]
        self.token_bytes: np.ndarray = np.load(path / "token_bytes.npy")
        dtype = token_dtype(self.vocab_size)
        self.train_stream: np.ndarray = np.memmap(path / "train.bin", dtype=dtype, mode="r")
        self.validation_stream: np.ndarray = np.memmap(path / "validation.bin", dtype=dtype, mode="r")
        self.train_documents: np.ndarray = np.load(path / "train_documents.npy", mmap_mode="r")
        self.validation_documents: np.ndarray = np.load(path / "validation_documents.npy", mmap_mode="r")
        self._floor = np.load(path / "validation_floor.npy", mmap_mode="r") if self.has_floor else None
        self._rows: dict[int, np.ndarray] = {}

    @classmethod
    def open(cls, path: Path) -> "Shards":
        """Opens finished shards; checks version, dtype and file sizes. Raises ShardError."""
        try:
            meta = json.loads((path / "meta.json").read_text())
            checksum = meta.pop("checksum")
        except (OSError, ValueError, KeyError) as error:
            raise ShardError(f"{path}: no readable meta.json ({error}). Run `prepare` again.") from error
        if checksum != meta_checksum(meta):
            raise ShardError(f"{path}: meta.json is damaged. Run `prepare` again.")
        if meta["format_version"] != FORMAT_VERSION:
            raise ShardError(f"{path}: not of shard format {FORMAT_VERSION}. Run `prepare` again.")
        if meta["dtype"] != token_dtype(meta["vocab_size"]).str:
            raise ShardError(f"{path}: {meta['dtype']} is not the type for {meta['vocab_size']} tokens.")
        for name, expected in meta["files"].items():
            file = path / name
            size = file.stat().st_size if file.exists() else 0
            if size != expected["bytes"]:
                raise ShardError(f"{file}: {size} bytes, not {expected['bytes']}. Run `prepare` again.")
        try:
            return cls(path, meta)
        except ValueError as error:
            raise ShardError(f"{path}: an array is damaged ({error}). Run `prepare` again.") from error

    def verify(self) -> None:
        """Compares every file with its checksum. Raises ShardError."""
        for name, expected in self._meta["files"].items():
            if file_sha256(self.path / name) != expected["sha256"]:
                raise ShardError(f"{self.path / name}: the checksum is wrong. Run `prepare` again.")

    def rows(self, context_length: int) -> np.ndarray:
        """int64 [num_rows]: where the training rows of context_length + 1 tokens start.

        The next row starts at the last document start inside this row, or, inside a document longer than a
        row, context_length tokens on. So every row starts with a document or continues a long one, and every
        token is predicted in each epoch. The stream is a ring: its last row goes on into the first document.
        """
        if context_length not in self._rows:
            documents = self.train_documents.tolist()
            starts = [0]
            while (reached := starts[-1] + context_length) < self._ring:
                last = documents[bisect_right(documents, reached) - 1]
                starts.append(last if last > starts[-1] else reached)
            self._rows[context_length] = np.array(starts, dtype=np.int64)
        return self._rows[context_length]

    @property
    def _ring(self) -> int:
        """The closing <|endoftext|> of the file is the first document's leading one."""
        return self.train_tokens - 1

    def batch(self, step: int, *, seed: int, rows: int, context_length: int) -> np.ndarray:
        """int64 [rows, context_length + 1]: the training rows of a step, counted from 0.

        A pure function of the arguments. Epochs follow each other without a gap, each in an order of its own.
        """
        starts = self.rows(context_length)
        positions = range(step * rows, (step + 1) * rows)
        chosen = [_epoch_order(len(starts), seed, p // len(starts))[p % len(starts)] for p in positions]
        offsets = starts[chosen][:, None] + np.arange(context_length + 1)
        return self.train_stream[offsets % self._ring].astype(np.int64)

    def validation(self, context_length: int, *, documents: int, rows: int) -> list[EvaluationBatch]:
        """The first `documents` validation documents, each scored whole, in rows padded with unscored <|endoftext|>.

        A row holds one document or part of one: a longer document continues in further rows. Its closing
        <|endoftext|> is scored too, and stands for 0 bytes.
        """
        spans = self._spans(context_length, documents)
        chunks = [spans[i : i + rows] for i in range(0, len(spans), rows)]
        return [self._evaluation_batch(chunk, rows, context_length) for chunk in chunks]

    def _spans(self, context_length: int, documents: int) -> list[tuple[int, int, int]]:
        """Per evaluation row, its first, its last scored and its last exact token in the validation stream."""
        starts = self.validation_documents[:documents].tolist()
        ends = [*self.validation_documents[1 : documents + 1].tolist(), len(self.validation_stream) - 1]
        spans = []
        for start, end in zip(starts, ends, strict=False):
            for first in range(start, end, context_length):
                last = min(first + context_length, end)
                # Further rows don't show the model the text before them, which the floor is conditioned on.
                exact = self._last_word_end(first, last) if first == start else first
                spans.append((first, last, exact))
        return spans

    def _last_word_end(self, first: int, last: int) -> int:
        """The last token after `first` that ends where the floor is known; `first` if there is none."""
        if self._floor is None:
            return first
        known = np.flatnonzero(~np.isnan(self._floor[first + 1 : last + 1]))
        return first + 1 + int(known[-1]) if len(known) else first

    def _evaluation_batch(
        self, spans: list[tuple[int, int, int]], rows: int, context_length: int
    ) -> EvaluationBatch:
        tokens = np.full((rows, context_length + 1), END_OF_TEXT_ID, dtype=np.int64)
        scored = np.zeros((rows, context_length), dtype=bool)
        exact = np.zeros_like(scored)
        floor_nats = 0.0
        for row, (first, last, last_exact) in enumerate(spans):
            tokens[row, : last - first + 1] = self.validation_stream[first : last + 1]
            scored[row, : last - first] = True
            exact[row, : last_exact - first] = True
            if self._floor is not None:
                floor_nats += float(np.nansum(self._floor[first + 1 : last_exact + 1]))
        sizes = self.token_bytes[tokens[:, 1:]]
        return EvaluationBatch(
            tokens,
            scored,
            exact,
            bytes=int(sizes[scored].sum()),
            exact_bytes=int(sizes[exact].sum()),
            floor_nats=None if self._floor is None else floor_nats,
        )
