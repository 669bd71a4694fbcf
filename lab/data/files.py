"""How does a file become documents? Readers for .txt, .jsonl (either also .gz) and .parquet.

Each yields `("file:line", text, lang)` of every document that holds more than white space, and raises ConfigError
with file and line for whatever it can't read. lang is None unless the record has that field and it holds a string.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from lab.config import ConfigError

SUFFIXES = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz", ".parquet")
SEPARATOR = "<|endoftext|>"
LANGUAGE_FIELD = "lang"
UNSEPARATED_CHARACTERS = 4000
"""A .txt without separators is cut at the first blank line after this many characters."""

Row = tuple[str, str, str | None]


def kind(path: Path) -> str:
    """How the file is read: its ending in SUFFIXES."""
    return next(suffix for suffix in SUFFIXES if path.name.endswith(suffix))


def read_documents(path: Path, field: str) -> Iterator[Row]:
    """The documents of one file; `field` is the JSON key or parquet column that holds the text."""
    if kind(path) == ".parquet":
        documents = _read_parquet(path, field)
    elif kind(path).startswith(".jsonl"):
        documents = _read_jsonl(path, field)
    else:
        documents = _read_txt(path)
    read = kept = 0
    for row in documents:
        read += 1
        if row[1].strip():
            kept += 1
            yield row
    if not kept:
        raise _problem(path, f"0 documents with text (read {read}, all empty). Give a file with text.")


def _problem(path: Path, what: str, line: int | None = None) -> ConfigError:
    return ConfigError(f"data.path = {path}{'' if line is None else f':{line}'}: {what}")


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, line with its line break) in UTF-8; a byte-order mark is dropped."""
    number = 0
    try:
        with cast(IO[bytes], gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
            for number, line in enumerate(file, start=1):
                if b"\0" in line:
                    raise _problem(path, "NUL bytes, so it isn't UTF-8 text. Convert it to UTF-8.", number)
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise _problem(path, f"not UTF-8 (byte 0x{byte:02X}). Convert the file to UTF-8.", number) from error
    except (EOFError, OSError, zlib.error) as error:
        raise _problem(path, f"can't be read after line {number} ({error}). Copy it again.") from error


def _read_txt(path: Path) -> Iterator[Row]:
    """Documents end at lines that hold only the separator; without any, at blank lines."""
    separated = any(line.strip() == SEPARATOR for _, line in _read_lines(path))
    start, lines, length = 1, list[str](), 0
    for number, line in _read_lines(path):
        stripped = line.strip()
        if stripped == SEPARATOR or (not separated and not stripped and length >= UNSEPARATED_CHARACTERS):
            yield f"{path}:{start}", "".join(lines).strip("\r\n"), None
            start, lines, length = number + 1, [], 0
        else:
            lines.append(line)
            length += len(line)
    if lines:
        yield f"{path}:{start}", "".join(lines).strip("\r\n"), None


def _read_jsonl(path: Path, field: str) -> Iterator[Row]:
    for number, line in _read_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line.rstrip("\r\n"))
        except json.JSONDecodeError as error:
            what = f"not valid JSON (column {error.colno}: {error.msg}). Mend or remove the line."
            raise _problem(path, what, number) from error
        except (ValueError, RecursionError) as error:
            raise _problem(
                path, "JSON too deep or with too long a number. Mend or remove the line.", number
            ) from error
        if not isinstance(record, dict):
            raise _problem(path, f'not a JSON object. Write {{"{field}": "..."}} on each line.', number)
        place = f"{path}:{number}"
        if field not in record:
            raise ConfigError(f"data.text_field = {field} ({place}): no such field. {_seen(record)}")
        text = record[field]
        if not isinstance(text, str):
            raise ConfigError(f"data.text_field = {field} ({place}): holds no string. {_seen(record)}")
        if not _encodable(text):
            raise _problem(path, "half of a surrogate pair is no character. Mend or remove the line.", number)
        yield place, text, _language(record.get(LANGUAGE_FIELD))


def _language(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _seen(fields: Iterable[str]) -> str:
    return f"Fields seen: {', '.join(fields)}."


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_parquet(path: Path, field: str) -> Iterator[Row]:
    import pyarrow  # 0.5 s of import that only parquet needs
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            columns = file.schema_arrow.names
            if field not in columns:
                raise ConfigError(f"data.text_field = {field} ({path}): no such column. {_seen(columns)}")
            languages = LANGUAGE_FIELD in columns and field != LANGUAGE_FIELD
            for batch in file.iter_batches(columns=[field, LANGUAGE_FIELD] if languages else [field]):
                langs = batch.column(LANGUAGE_FIELD).to_pylist() if languages else [None] * len(batch)
                for text, lang in zip(batch.column(field).to_pylist(), langs, strict=True):
                    number += 1
                    place = f"{path}:{number}"
                    if not isinstance(text, str):
                        raise ConfigError(f"data.text_field = {field} ({place}): this row holds no string.")
                    yield place, text, _language(lang)
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        size = f"the file has {path.stat().st_size} bytes"
        raise _problem(path, f"can't be read as parquet ({reason}; {size}). Copy it again.") from error
