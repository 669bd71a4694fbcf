"""Which tokens does step n read, and which text does an evaluation score? Token shards, memory-mapped.

A stream is a run of documents, `<|endoftext|>` (id 0) before each and once more at the end of the file.
Training rows are a pure function of (step, seed). Evaluation rows hold one document each and know the UTF-8
bytes, and for corpora of known probability the floor in nats, of exactly the tokens they score.
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

    bytes: UTF-8 bytes of the scored tokens. floor_nats: their exact surprisal, None where it isn't known.
    """

    tokens: np.ndarray
    scored: np.ndarray
    bytes: int
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
        """The first `documents` validation documents, one a row, padded with unscored <|endoftext|>.

        A document longer than a row continues in further rows; with a floor only its first row counts, up to
        the last word that fits. The closing <|endoftext|> is scored if it fits, and stands for 0 bytes.
        """
        spans = self._spans(context_length, documents)
        chunks = [spans[i : i + rows] for i in range(0, len(spans), rows)]
        return [self._evaluation_batch(chunk, rows, context_length) for chunk in chunks]

    def _spans(self, context_length: int, documents: int) -> list[tuple[int, int]]:
        """Per evaluation row, its first and its last scored token in the validation stream."""
        starts = self.validation_documents[:documents].tolist()
        ends = [*self.validation_documents[1 : documents + 1].tolist(), len(self.validation_stream) - 1]
        spans = []
        for start, end in zip(starts, ends, strict=False):
            if self._floor is None:
                spans += [(s, min(s + context_length, end)) for s in range(start, end, context_length)]
            else:
                last = min(start + context_length, end)
                boundaries = np.flatnonzero(~np.isnan(self._floor[start + 1 : last + 1]))
                spans.append((start, start + 1 + int(boundaries[-1]) if len(boundaries) else start))
        return spans

    def _evaluation_batch(
        self, spans: list[tuple[int, int]], rows: int, context_length: int
    ) -> EvaluationBatch:
        tokens = np.full((rows, context_length + 1), END_OF_TEXT_ID, dtype=np.int64)
        scored = np.zeros((rows, context_length), dtype=bool)
        floor_nats = 0.0
        for row, (start, last) in enumerate(spans):
            length = last - start
            tokens[row, : length + 1] = self.validation_stream[start : last + 1]
            scored[row, :length] = True
            if self._floor is not None:
                floor_nats += float(np.nansum(self._floor[start + 1 : last + 1]))
        scored_bytes = int(self.token_bytes[tokens[:, 1:][scored]].sum())
        return EvaluationBatch(tokens, scored, scored_bytes, None if self._floor is None else floor_nats)
