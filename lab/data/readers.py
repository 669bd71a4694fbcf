"""How does a file become documents? Readers for .txt, .jsonl, .json, .csv (all also .gz) and .parquet.

Each yields a `FileDocument` for every document that holds more than white space, one document in memory at
a time, and raises ConfigError with file and line for whatever it can't read.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from lab.config.strict import ConfigError
from lab.data.json_values import BEYOND, no_json, values
from lab.data.text_lines import LONGEST, PACKED, lines, not_utf8, problem

SUFFIXES = (".txt", ".jsonl", ".json", ".csv", ".parquet")
FORMATS = f"{', '.join(SUFFIXES[:-1])} (all of these also {PACKED}) or {SUFFIXES[-1]}"
TXT_VERSION = 2  # raised by hand when a .txt is cut elsewhere
SEPARATOR = "<|endoftext|>"
LANGUAGE_FIELD = "lang"
UNSEPARATED_CHARACTERS = 4000
"""A .txt without separators is cut at the first blank line after this many characters."""
PARQUET_ROWS = 1000


class FileDocument(NamedTuple):
    """A document as it stands in a file.

    place: "file:line"; lang: of the record, None where it says none; position: bytes of the file read so
    far.
    """

    place: str
    text: str
    lang: str | None
    position: int


def is_read(path: Path) -> bool:
    """Whether files of such a name are read."""
    return _unpacked(path).endswith(SUFFIXES) and kind(path) != f".parquet{PACKED}"


def kind(path: Path) -> str:
    """How the file is read: its ending in small letters, as ".txt" or ".txt.gz"."""
    ending = next(suffix for suffix in SUFFIXES if _unpacked(path).endswith(suffix))
    return ending + PACKED if path.name.lower().endswith(PACKED) else ending


def _unpacked(path: Path) -> str:
    return path.name.lower().removesuffix(PACKED)


def read_documents(
    path: Path, field: str, *, skip_null: bool = False, empty: Callable[[], None] | None = None
) -> Iterator[FileDocument]:
    """The documents of one file; `field` is the JSON key or column that holds the text.

    skip_null: a record whose text is null is one without text, and no error. empty: called for every record
    without text; where it isn't given, a file that holds no text is an error.
    """
    records = _Records(path, field, skip_null)
    documents = READERS[kind(path).removesuffix(PACKED)](records)
    read = kept = 0
    for row in documents:
        read += 1
        if row.text.strip():
            kept += 1
            yield row
        elif empty is not None and not kind(path).startswith(".txt"):
            empty()
    if not kept and empty is None:
        raise problem(path, f"0 documents with text (read {read}, all empty). Give a file with text.")


class _Records(NamedTuple):
    """A file and how one record of it becomes a document."""

    path: Path
    field: str
    skip_null: bool

    def document(self, record: object, line: int, position: int) -> FileDocument:
        """The document of a JSON value. Raises ConfigError."""
        if not isinstance(record, dict):
            raise self.not_an_object(line)
        place = f"{self.path}:{line}"
        if self.field not in record:
            raise ConfigError(f"data.text_field = {self.field} ({place}): no such field. {_seen(record)}")
        text = self.text(record[self.field], f"({place}): holds no string. {_seen(record)}")
        lang = self.language(record.get(LANGUAGE_FIELD))
        if not _encodable(text) or not _encodable(lang or ""):
            what = "half of a surrogate pair is no character. Mend or remove the line."
            raise problem(self.path, what, line)
        return FileDocument(place, text, lang, position)

    def text(self, value: object, otherwise: str) -> str:
        """The text of a record, empty where a null is passed over. Raises ConfigError."""
        if value is None and self.skip_null:
            return ""
        if isinstance(value, str):
            return value
        way = " data.skip_null=true passes over nulls." if value is None else ""
        raise ConfigError(f"data.text_field = {self.field} {otherwise}{way}")

    def language(self, value: object) -> str | None:
        """The language that a record names, unless that field holds the text."""
        if self.field == LANGUAGE_FIELD or not isinstance(value, str):
            return None
        return value.strip() or None

    def not_an_object(self, line: int) -> ConfigError:
        where = "on each line" if kind(self.path).startswith(".jsonl") else "for each document"
        return problem(self.path, f'not a JSON object. Write {{"{self.field}": "..."}} {where}.', line)

    def column(self, columns: list[str]) -> int:
        """Where the text stands among columns. Raises ConfigError."""
        if self.field not in columns:
            what = f"no such column. {_seen(columns)}"
            raise ConfigError(f"data.text_field = {self.field} ({self.path}): {what}")
        return columns.index(self.field)


def _read_txt(records: _Records) -> Iterator[FileDocument]:
    """Documents end at the separator, wherever it stands; without any, at blank lines."""
    path = records.path
    separated = any(SEPARATOR in line for _, line, _ in lines(path))
    start, parts, length, position = 1, list[str](), 0, 0
    for number, line, position in lines(path):
        *ends, rest = line.split(SEPARATOR)
        for end in ends:
            yield _of_parts(path, start, [*parts, end], position)
            start, parts, length = number, [], 0
        if ends and not rest.strip():
            start = number + 1
            continue
        if not separated and not rest.strip() and length >= UNSEPARATED_CHARACTERS:
            yield _of_parts(path, start, parts, position)
            start, parts, length = number + 1, [], 0
            continue
        parts.append(rest)
        length += len(rest)
        if length > LONGEST:
            what = f"more than {LONGEST:,} characters in a document. Separate documents by {SEPARATOR}"
            raise problem(path, f"{what}{'' if separated else ' or by blank lines'}.", start)
    if parts:
        yield _of_parts(path, start, parts, position)


def _of_parts(path: Path, start: int, parts: Iterable[str], position: int) -> FileDocument:
    return FileDocument(f"{path}:{start}", "".join(parts).strip("\r\n"), None, position)


def _read_jsonl(records: _Records) -> Iterator[FileDocument]:
    path = records.path
    for number, line, position in lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line.rstrip("\r\n"))
        except json.JSONDecodeError as error:
            if line.lstrip().startswith("["):
                raise records.not_an_object(number) from error
            raise no_json(path, number, error.colno, error.msg) from error
        except (ValueError, RecursionError) as error:
            raise problem(path, BEYOND, number) from error
        yield records.document(record, number, position)


def _read_json(records: _Records) -> Iterator[FileDocument]:
    for value, line, position in values(records.path):
        yield records.document(value, line, position)


def _read_csv(records: _Records) -> Iterator[FileDocument]:
    """The first row names the columns."""
    position, first = 0, 1

    def read() -> Iterator[str]:
        nonlocal position
        for _, line, reached in lines(records.path):
            position = reached
            yield line

    csv.field_size_limit(LONGEST)
    rows = csv.reader(read(), strict=True)
    try:
        columns = next(rows, [])
        text = records.column(columns) if columns else 0
        lang = columns.index(LANGUAGE_FIELD) if LANGUAGE_FIELD in columns else None
        first = rows.line_num + 1
        for row in rows:
            if row and len(row) != len(columns):
                what = f"{len(row)} fields, and the first row has {len(columns)}. Mend or remove the row."
                raise problem(records.path, what, first)
            if row:
                language = records.language(None if lang is None else row[lang])
                yield FileDocument(f"{records.path}:{first}", row[text], language, position)
            first = rows.line_num + 1
    except csv.Error as error:
        what = f"not valid CSV ({error}). Mend the quotes of the row, or remove it."
        raise problem(records.path, what, first) from error


def _seen(fields: Iterable[str]) -> str:
    return f"Fields seen: {', '.join(fields)}."


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_parquet(records: _Records) -> Iterator[FileDocument]:
    import pyarrow  # 0.5 s of import that only parquet needs
    import pyarrow.parquet

    path, field = records.path, records.field
    number, size = 0, path.stat().st_size
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            columns, rows = file.schema_arrow.names, file.metadata.num_rows
            records.column(columns)
            languages = LANGUAGE_FIELD in columns and field != LANGUAGE_FIELD
            wanted = [field, LANGUAGE_FIELD] if languages else [field]
            for batch in file.iter_batches(batch_size=PARQUET_ROWS, columns=wanted):
                langs = batch.column(LANGUAGE_FIELD).to_pylist() if languages else [None] * len(batch)
                for value, lang in zip(batch.column(field), langs, strict=True):
                    number += 1
                    place = f"{path}:{number}"
                    text = records.text(value.as_py(), f"({place}): this row holds no string.")
                    yield FileDocument(place, text, records.language(lang), size * number // rows)
    except UnicodeDecodeError as error:
        raise not_utf8(path, error, number, "column") from error
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise problem(
            path, f"can't be read as parquet ({reason}; the file has {size} bytes). Copy it again."
        ) from error


READERS = {
    ".txt": _read_txt,
    ".jsonl": _read_jsonl,
    ".json": _read_json,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}
