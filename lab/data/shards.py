"""Which tokens does step n read? Token shards, memory-mapped.

A stream is a run of documents, `<|endoftext|>` (id 0) before each and once more at the end of the file.
Training rows are a pure function of (step, seed). What an evaluation scores is in lab/data/evaluation.py.
Needs numpy only: training workers read this.
"""

import functools
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lab.data.shard_meta import ShardError, ShardMeta, file_sha256, read_meta

END_OF_TEXT_ID = 0
NO_SKILL = 255


def token_dtype(vocab_size: int) -> np.dtype:
    """The smallest type that holds every id; little-endian on disk."""
    return np.dtype("<u2" if vocab_size <= 2**16 else "<u4")


class Reading(NamedTuple):
    """What one run read of the training text: its first `rows` rows of `context_length`, in the order of
    its seed.
    """

    seed: int
    context_length: int
    rows: int


@functools.lru_cache(maxsize=4)
def _epoch_order(num_rows: int, seed: int, epoch: int) -> np.ndarray:
    """A permutation from (seed, epoch) alone. Raw bits stay equal across numpy versions; `permutation` may
    not.
    """
    raw = np.random.PCG64(np.random.SeedSequence((seed, epoch))).random_raw(num_rows)
    return np.argsort(raw, kind="stable")


class Shards:
    """Token shards of one corpus under one tokenizer. Read-only.

    token_bytes int32 [vocab_size]: UTF-8 bytes of each token. languages: codes that validation_language
    [documents] counts in. Where a corpus has a floor, `skills` names its skills, and per validation token
    stand its word's skill (an index, or NO_SKILL) and, at the last token of a word, the word's exact
    surprisal in nats (NaN elsewhere).
    """

    def __init__(self, path: Path, meta: ShardMeta) -> None:
        self.path = path
        self._meta = meta
        self.vocab_size = meta.vocab_size
        self.fingerprint = meta.fingerprint
        self.tokenizer_hash = meta.tokenizer_hash
        self.train_tokens = meta.train.tokens
        self.train_bytes = meta.train.bytes
        self.bytes_per_token = self.train_bytes / self.train_tokens
        self.unigram_bpb = meta.unigram_bpb
        self.skills = meta.skills
        self.languages = meta.languages
        self.near_duplicates = meta.near_duplicates
        self.token_bytes: np.ndarray = np.load(path / "token_bytes.npy")
        dtype = token_dtype(self.vocab_size)
        self.train_stream: np.ndarray = np.memmap(path / "train.bin", dtype=dtype, mode="r")
        self.validation_stream: np.ndarray = np.memmap(path / "validation.bin", dtype=dtype, mode="r")
        self.train_documents: np.ndarray = np.load(path / "train_documents.npy", mmap_mode="r")
        self.validation_documents: np.ndarray = np.load(path / "validation_documents.npy", mmap_mode="r")
        self.validation_language: np.ndarray = np.load(path / "validation_language.npy")
        if self.skills:
            self.validation_floor: np.ndarray = np.load(path / "validation_floor.npy", mmap_mode="r")
            self.validation_skill: np.ndarray = np.load(path / "validation_skill.npy", mmap_mode="r")
            self.choices: np.ndarray = np.load(path / "choices.npy")
            self.choice_tokens: np.ndarray = np.load(path / "choice_tokens.npy")
        self._rows: dict[int, np.ndarray] = {}
        self._unread_rows: dict[tuple[tuple[Reading, ...], int, int], tuple[int, np.ndarray]] = {}

    @classmethod
    def open(cls, path: Path) -> "Shards":
        """Opens finished shards; checks version, dtype and file sizes. Raises ShardError."""
        meta = read_meta(path)
        if meta.dtype != token_dtype(meta.vocab_size).str:
            raise ShardError(f"{path}: {meta.dtype} is not the type for {meta.vocab_size} tokens.")
        for name, expected in meta.files.items():
            file = path / name
            size = file.stat().st_size if file.exists() else 0
            if size != expected.bytes:
                raise ShardError(f"{file}: {size} bytes, not {expected.bytes}. Run `prepare` again.")
        try:
            return cls(path, meta)
        except ValueError as error:
            raise ShardError(f"{path}: an array is damaged ({error}). Run `prepare` again.") from error

    def verify(self) -> None:
        """Compares every file with its checksum. Raises ShardError."""
        for name, expected in self._meta.files.items():
            if file_sha256(self.path / name) != expected.sha256:
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

    @functools.cached_property
    def vocabulary(self) -> list[bytes]:
        """The UTF-8 bytes of each token; none for `<|endoftext|>`."""
        content, ends = (self.path / "vocabulary.bin").read_bytes(), self.token_bytes.cumsum()
        return [content[end - size : end] for size, end in zip(self.token_bytes, ends, strict=True)]

    @functools.cached_property
    def starts_word(self) -> np.ndarray:
        """bool [vocab_size]: the tokens before which a word has ended, by white space or `<|endoftext|>`."""
        return np.array([not token or token[:1].isspace() for token in self.vocabulary])

    @property
    def _ring(self) -> int:
        """The closing <|endoftext|> of the file is the first document's leading one."""
        return self.train_tokens - 1

    def batch(
        self, step: int, *, seed: int, rows: int, context_length: int, after: tuple[Reading, ...] = ()
    ) -> np.ndarray:
        """int64 [rows, context_length + 1]: the training rows of a step, counted from 0.

        A pure function of the arguments. Epochs follow each other without a gap, each in an order of its
        own. A run that goes on `after` what others read begins with the rest of the epoch that they
        stopped in.
        """
        starts = self.rows(context_length)
        epoch, unread = self._unread(after, seed, context_length)
        chosen = []
        for position in range(step * rows, (step + 1) * rows):
            if (later := position - len(unread)) < 0:
                chosen.append(unread[position])
            else:
                order = _epoch_order(len(starts), seed, epoch + 1 + later // len(starts))
                chosen.append(order[later % len(starts)])
        offsets = starts[chosen][:, None] + np.arange(context_length + 1)
        return self.train_stream[offsets % self._ring].astype(np.int64)

    def _unread(self, after: tuple[Reading, ...], seed: int, context_length: int) -> tuple[int, np.ndarray]:
        """The epoch that the readings stop in, and its rows that none of them has read, in the order of
        `seed`.

        Each token belongs to the last row that starts at or before it. Rows of another length count as
        read where the row that their first token belongs to was.
        """
        key = (after, seed, context_length)
        if key not in self._unread_rows:
            starts = self.rows(context_length)
            epoch, is_unread = 0, np.ones(len(starts), dtype=bool)
            if after:
                last, theirs = after[-1], self.rows(after[-1].context_length)
                epoch, left = self._unread(after[:-1], last.seed, last.context_length)
                if (beyond := last.rows - len(left)) < 0:
                    left = left[last.rows :]
                else:
                    epoch += 1 + beyond // len(theirs)
                    left = _epoch_order(len(theirs), last.seed, epoch)[beyond % len(theirs) :]
                is_left = np.isin(np.arange(len(theirs)), left)
                is_unread = is_left[np.searchsorted(theirs, starts, side="right") - 1]
            order = _epoch_order(len(starts), seed, epoch)
            self._unread_rows[key] = epoch, order[is_unread[order]]
        return self._unread_rows[key]
