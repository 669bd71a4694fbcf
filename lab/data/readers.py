"""How does a file become documents? Readers for .txt, .jsonl (either also .gz) and .parquet.

Each yields a `FileDocument` for every document that holds more than white space, one document in memory at
a time, and raises ConfigError with file and line for whatever it can't read.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

from lab.config.strict import ConfigError

SUFFIXES = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz", ".parquet")
SEPARATOR = "<|endoftext|>"
LANGUAGE_FIELD = "lang"
UNSEPARATED_CHARACTERS = 4000
"""A .txt without separators is cut at the first blank line after this many characters."""
LONGEST = 16_000_000
"""The most bytes in a line and characters in a document: more has no line breaks or separators."""
PARQUET_ROWS = 1000
SIGNATURES = {
    b"\xff\xfe\0\0": "UTF-32 text. Convert it to UTF-8.",
    b"\0\0\xfe\xff": "UTF-32 text. Convert it to UTF-8.",
    b"\xff\xfe": "UTF-16 text. Convert it to UTF-8.",
    b"\xfe\xff": "UTF-16 text. Convert it to UTF-8.",
    b"\x1f\x8b": "compressed by gzip. Let its name end in .gz.",
    b"PAR1": "a parquet file. Let its name end in .parquet.",
}


class FileDocument(NamedTuple):
    """A document as it stands in a file.

    place: "file:line"; lang: of the record, None where it says none; position: bytes of the file read so
    far.
    """

    place: str
    text: str
    lang: str | None
    position: int


def kind(path: Path) -> str:
    """How the file is read: its ending in SUFFIXES."""
    return next(suffix for suffix in SUFFIXES if path.name.endswith(suffix))


def read_documents(path: Path, field: str) -> Iterator[FileDocument]:
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
        if row.text.strip():
            kept += 1
            yield row
    if not kept:
        raise _problem(path, f"0 documents with text (read {read}, all empty). Give a file with text.")


def _problem(path: Path, what: str, line: int | None = None) -> ConfigError:
    return ConfigError(f"data.path = {path}{'' if line is None else f':{line}'}: {what}")


def _read_lines(path: Path) -> Iterator[tuple[int, str, int]]:
    """(number from 1, line with its line break, bytes of the file read) in UTF-8; a byte-order mark is
    dropped.
    """
    number = 0
    try:
        with path.open("rb") as raw:
            file = cast(IO[bytes], gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw)
            while line := file.readline(LONGEST + 1):
                number += 1
                if number == 1:
                    _refuse_other_kinds(path, line)
                if len(line) > LONGEST:
                    what = f"more than {LONGEST:,} bytes in a line. Break it into lines."
                    raise _problem(path, what, number)
                if b"\0" in line:
                    raise _problem(path, "NUL bytes, so it isn't UTF-8 text. Convert it to UTF-8.", number)
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8"), raw.tell()
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise _problem(path, f"not UTF-8 (byte 0x{byte:02X}). Convert the file to UTF-8.", number) from error
    except (EOFError, OSError, zlib.error) as error:
        raise _problem(path, f"can't be read after line {number} ({error}). Copy it again.") from error


def _refuse_other_kinds(path: Path, start: bytes) -> None:
    for signature, what in SIGNATURES.items():
        if start.startswith(signature):
            raise _problem(path, what, 1)


def _read_txt(path: Path) -> Iterator[FileDocument]:
    """Documents end at lines that hold only the separator; without any, at blank lines."""
    separated = any(line.strip() == SEPARATOR for _, line, _ in _read_lines(path))
    start, lines, length, position = 1, list[str](), 0, 0
    for number, line, position in _read_lines(path):
        stripped = line.strip()
        if stripped == SEPARATOR or (not separated and not stripped and length >= UNSEPARATED_CHARACTERS):
            yield FileDocument(f"{path}:{start}", "".join(lines).strip("\r\n"), None, position)
            start, lines, length = number + 1, [], 0
            continue
        lines.append(line)
        length += len(line)
        if length > LONGEST:
            what = (
                f"more than {LONGEST:,} characters in a document. Separate documents by lines of {SEPARATOR}"
            )
            raise _problem(path, f"{what}{'' if separated else ' or by blank lines'}.", start)
    if lines:
        yield FileDocument(f"{path}:{start}", "".join(lines).strip("\r\n"), None, position)


def _read_jsonl(path: Path, field: str) -> Iterator[FileDocument]:
    for number, line, position in _read_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line.rstrip("\r\n"))
        except json.JSONDecodeError as error:
            if line.lstrip().startswith("["):
                raise _not_an_object(path, field, number) from error
            what = f"not valid JSON (column {error.colno}: {error.msg}). Mend or remove the line."
            raise _problem(path, what, number) from error
        except (ValueError, RecursionError) as error:
            raise _problem(
                path, "JSON too deep or with too long a number. Mend or remove the line.", number
            ) from error
        if not isinstance(record, dict):
            raise _not_an_object(path, field, number)
        place = f"{path}:{number}"
        if field not in record:
            raise ConfigError(f"data.text_field = {field} ({place}): no such field. {_seen(record)}")
        text = record[field]
        if not isinstance(text, str):
            raise ConfigError(f"data.text_field = {field} ({place}): holds no string. {_seen(record)}")
        lang = None if field == LANGUAGE_FIELD else _language(record.get(LANGUAGE_FIELD))
        if not _encodable(text) or not _encodable(lang or ""):
            raise _problem(path, "half of a surrogate pair is no character. Mend or remove the line.", number)
        yield FileDocument(place, text, lang, position)


def _not_an_object(path: Path, field: str, number: int) -> ConfigError:
    return _problem(path, f'not a JSON object. Write {{"{field}": "..."}} on each line.', number)


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


def _read_parquet(path: Path, field: str) -> Iterator[FileDocument]:
    import pyarrow  # 0.5 s of import that only parquet needs
    import pyarrow.parquet

    number, size = 0, path.stat().st_size
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            columns, rows = file.schema_arrow.names, file.metadata.num_rows
            if field not in columns:
                raise ConfigError(f"data.text_field = {field} ({path}): no such column. {_seen(columns)}")
            languages = LANGUAGE_FIELD in columns and field != LANGUAGE_FIELD
            wanted = [field, LANGUAGE_FIELD] if languages else [field]
            for batch in file.iter_batches(batch_size=PARQUET_ROWS, columns=wanted):
                langs = batch.column(LANGUAGE_FIELD).to_pylist() if languages else [None] * len(batch)
                for value, lang in zip(batch.column(field), langs, strict=True):
                    number += 1
                    place, text = f"{path}:{number}", value.as_py()
                    if not isinstance(text, str):
                        raise ConfigError(f"data.text_field = {field} ({place}): this row holds no string.")
                    yield FileDocument(place, text, _language(lang), size * number // rows)
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise _problem(
            path, f"not UTF-8 (byte 0x{byte:02X}). Convert the column to UTF-8.", number
        ) from error
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise _problem(
            path, f"can't be read as parquet ({reason}; the file has {size} bytes). Copy it again."
        ) from error
