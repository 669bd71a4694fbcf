"""What does a folder of shards say about itself? The record in its meta.json, sealed with a checksum.

Read and written here alone. Needs the standard library only: training workers read this.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.config.strict import ConfigError, absent, plain, read

FORMAT_VERSION = 2
NAME = "meta.json"


class ShardError(ValueError):
    """A folder holds no shards of this format, or they are damaged."""


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class SplitCounts:
    """What a split holds: documents, tokens with every `<|endoftext|>`, and UTF-8 bytes of text."""

    documents: int
    tokens: int
    bytes: int


@dataclass(frozen=True)
class NearDuplicates:
    """Validation documents that a training document nearly equals, the training documents that were left
    out for it, and the first pair in words (None: there is none).
    """

    validation_documents: int
    training_documents_dropped: int
    first: str | None


@dataclass(frozen=True)
class FileSeal:
    """The size of a finished file in bytes and its SHA-256."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "FileSeal":
        """The seal of a file as it is now."""
        return cls(path.stat().st_size, file_sha256(path))


@dataclass(frozen=True)
class ShardMeta:
    """What meta.json says, its fields in the order of the file.

    dtype: of the token streams, as numpy writes it. corpus, fingerprint, provenance: which text, by name, by
    the hash of its content, and in words. skills: of a corpus with a floor, none elsewhere. languages:
    codes that validation documents are counted by. unigram_bpb: bits per UTF-8 byte of the validation text
    under its own unigram distribution. files: the seal of every other file in the folder. empty_rows: records
    without text, which were passed over.
    """

    format_version: int
    dtype: str
    vocab_size: int
    train: SplitCounts
    validation: SplitCounts
    corpus: str
    fingerprint: str
    provenance: str
    near_duplicates: NearDuplicates
    skills: list[str]
    languages: list[str]
    tokenizer_hash: str
    unigram_bpb: float
    files: dict[str, FileSeal]
    empty_rows: int = absent(0)


def read_meta(folder: Path) -> ShardMeta:
    """The record of a folder of shards. ShardError where it is missing, damaged or of another format."""
    try:
        fields = json.loads((folder / NAME).read_text())
        checksum = fields.pop("checksum")
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ShardError(f"{folder}: no readable {NAME} ({error}). Run `prepare` again.") from error
    if checksum != _checksum(fields):
        raise ShardError(f"{folder}: {NAME} is damaged. Run `prepare` again.")
    if fields.get("format_version") != FORMAT_VERSION:
        raise ShardError(f"{folder}: not of shard format {FORMAT_VERSION}. Run `prepare` again.")
    try:
        return read(ShardMeta, fields, source=f"{folder / NAME}", fix="Run `prepare` again.")
    except ConfigError as error:
        raise ShardError(str(error)) from error


def write_meta(folder: Path, meta: ShardMeta) -> None:
    """Writes meta.json with the checksum of the rest."""
    fields = plain(meta)
    text = json.dumps(fields | {"checksum": _checksum(fields)}, indent=1, allow_nan=False)
    (folder / NAME).write_text(text)


def _checksum(fields: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
