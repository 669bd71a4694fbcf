"""Which lines does a text file hold? UTF-8, packed by gzip or not; what can't be read is a ConfigError with
file and line.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from lab.config.strict import ConfigError

PACKED = ".gz"
LONGEST = 16_000_000
"""The most bytes in a line and characters in a document: more has no line breaks or separators."""
SIGNATURES = {
    b"\xff\xfe\0\0": "UTF-32 text. Convert it to UTF-8.",
    b"\0\0\xfe\xff": "UTF-32 text. Convert it to UTF-8.",
    b"\xff\xfe": "UTF-16 text. Convert it to UTF-8.",
    b"\xfe\xff": "UTF-16 text. Convert it to UTF-8.",
    b"\x1f\x8b": "compressed by gzip. Let its name end in .gz.",
    b"PAR1": "a parquet file. Let its name end in .parquet.",
}


def problem(path: Path, what: str, line: int | None = None) -> ConfigError:
    """What is wrong with a file, or with one line of it."""
    return ConfigError(f"data.path = {path}{'' if line is None else f':{line}'}: {what}")


def not_utf8(path: Path, error: UnicodeDecodeError, line: int, what: str = "file") -> ConfigError:
    """A file, or another part of it, of another encoding."""
    byte = error.object[error.start]
    return problem(path, f"not UTF-8 (byte 0x{byte:02X}). Convert the {what} to UTF-8.", line)


def lines(path: Path) -> Iterator[tuple[int, str, int]]:
    """(number from 1, line with its line break, bytes of the file read); a byte-order mark is dropped."""
    for number, line, position in pieces(path, most=LONGEST + 1):
        if len(line) > LONGEST:
            raise problem(path, f"more than {LONGEST:,} bytes in a line. Break it into lines.", number)
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise not_utf8(path, error, number) from error
        yield number, text, position


def pieces(path: Path, *, most: int) -> Iterator[tuple[int, bytes, int]]:
    """(number of its line from 1, up to `most` bytes of that line, bytes of the file read)."""
    number, ended = 0, True
    try:
        with path.open("rb") as raw:
            packed = path.name.lower().endswith(PACKED)
            file = cast(IO[bytes], gzip.GzipFile(fileobj=raw) if packed else raw)
            while piece := file.readline(most):
                number += ended
                if number == 1:
                    _refuse_other_kinds(path, piece)
                if b"\0" in piece:
                    raise problem(path, "NUL bytes, so it isn't UTF-8 text. Convert it to UTF-8.", number)
                yield number, piece, raw.tell()
                ended = piece.endswith(b"\n")
    except (EOFError, OSError, zlib.error) as error:
        raise problem(path, f"can't be read after line {number} ({error}). Copy it again.") from error


def _refuse_other_kinds(path: Path, start: bytes) -> None:
    for signature, what in SIGNATURES.items():
        if start.startswith(signature):
            raise problem(path, what, 1)
