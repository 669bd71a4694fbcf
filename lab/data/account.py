"""What was read of the user's own text, and what was left out? One line, told before training."""

from pathlib import Path

from lab.config.schema import Data
from lab.data import text_files
from lab.data.shard_meta import ShardMeta, read_meta


def account(data: Data, folder: Path) -> str:
    """What `folder`, the shards of `data`, were made from; empty for a text that is no file of the user's."""
    if data.name == "stories" or data.path is None:
        return ""
    files = text_files.find(data)
    read = [
        _count(len(files.training) + len(files.validation), "file"),
        *_documents(read_meta(folder), own_split=bool(files.validation)),
        *(f"skipped {text_files.names_of(some.names)} ({some.why})" for some in files.skipped),
    ]
    return "; ".join(read)


def _documents(meta: ShardMeta, *, own_split: bool) -> list[str]:
    train, validation, near = meta.train, meta.validation, meta.near_duplicates
    how = "in validation files" if own_split else "held out for validation"
    documents, size = train.documents + validation.documents, train.bytes + validation.bytes
    told = [
        f"{_count(documents, 'document')} of {_bytes(size)}",
        f"{validation.documents:,} of them, {validation.bytes / size:.1%} of the bytes, {how}",
    ]
    if validation.documents == 1:
        told.append("one validation document says little: give more, or another data.validation_fraction")
    if near.training_documents_dropped:
        told.append(f"left out {_count(near.training_documents_dropped, 'near copy', 'near copies')} of them")
    if meta.empty_rows:
        told.append(f"skipped {_count(meta.empty_rows, 'record')} without text")
    return told


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _bytes(number: int) -> str:
    """In B, KB or MB, as text is counted: by thousands."""
    if number < 1000:
        return f"{number} B"
    return f"{number / 1e3:.1f} KB" if number < 1e6 else f"{number / 1e6:,.1f} MB"
