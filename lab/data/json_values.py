"""Which values does a .json hold, one in memory at a time? The items of a list, or values one after
another as in a .jsonl; laid out in any way.
"""

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lab.config.strict import ConfigError
from lab.data.text_lines import LONGEST, not_utf8, pieces, problem

PIECE = 1 << 18
"""The most bytes that are read at a time."""
BEYOND = "JSON too deep or with too long a number. Mend or remove the line."


class JsonValue(NamedTuple):
    """A value, the line it begins in, and the bytes of the file read so far."""

    value: object
    line: int
    position: int


def values(path: Path) -> Iterator[JsonValue]:
    """The values of one file. Raises ConfigError with file, line and column."""
    text = _Text(path)
    listed = text.follows() and text.take("[")
    first = True
    while text.follows():
        if listed and text.take("]"):
            break
        if listed and not first:
            text.expect(",")
        first = False
        line = text.line
        yield JsonValue(text.value(), line, text.position)
    else:
        if listed:
            raise problem(path, "the list has no end. Copy the file again.", text.line)
        return
    if text.follows():
        raise text.refusal("Extra data", text.at)


def no_json(path: Path, line: int, column: int, what: str) -> ConfigError:
    """What is wrong at a place of a file."""
    return problem(path, f"not valid JSON (column {column}: {what}). Mend or remove the line.", line)


class _Text:
    """What is known of a file from `at` on; more is read when it is asked for. line: that of `at`."""

    def __init__(self, path: Path) -> None:
        self._path, self._pieces = path, pieces(path, most=PIECE)
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._known, self._column, self._ended = "", 1, False
        self.at, self.line, self.position = 0, 1, 0

    def follows(self) -> bool:
        """Pass over white space; whether anything comes after it."""
        while True:
            rest = self._known[self.at : self.at + PIECE]
            if rest.strip():
                self._pass_to(self.at + len(rest) - len(rest.lstrip()))
                return True
            self._pass_to(self.at + len(rest))
            if self.at == len(self._known) and not self._grow():
                return False

    def take(self, character: str) -> bool:
        """Pass over the character if it stands here."""
        found = self._known.startswith(character, self.at)
        self._pass_to(self.at + found)
        return found

    def expect(self, character: str) -> None:
        """Pass over the character, which must stand here and something after it. Raises ConfigError."""
        if not self.take(character):
            raise self.refusal(f"Expecting '{character}' delimiter", self.at)
        self.follows()

    def value(self) -> object:
        """The value that begins here, passed over. Raises ConfigError."""
        while True:
            try:
                value, end = json.JSONDecoder().raw_decode(self._known, self.at)
            except json.JSONDecodeError as error:
                if len(self._known) - self.at > LONGEST:
                    what = f"more than {LONGEST:,} characters in a value. Mend or remove it."
                    raise problem(self._path, what, self.line) from error
                before = self.at
                if self._grow():
                    continue
                raise self.refusal(error.msg, error.pos - before + self.at) from error
            except (ValueError, RecursionError) as error:
                raise problem(self._path, BEYOND, self.line) from error
            self._pass_to(end)
            return value

    def refusal(self, what: str, index: int) -> ConfigError:
        line, column = self._place(index)
        return no_json(self._path, line, column, what)

    def _grow(self) -> bool:
        """Read until twice as much is known; False at the end of the file."""
        if self._ended:
            return False
        parts = [self._known[self.at :]]
        wanted, line = max(PIECE, len(parts[0])), self.line
        while wanted > 0 and not self._ended:
            line, piece, self.position = next(self._pieces, (line, b"", self.position))
            self._ended = not piece
            try:
                parts.append(self._decode(piece, self._ended))
            except UnicodeDecodeError as error:
                raise not_utf8(self._path, error, line) from error
            wanted -= len(parts[-1])
        self._known, self.at = "".join(parts), 0
        return True

    def _pass_to(self, end: int) -> None:
        self.line, self._column = self._place(end)
        self.at = end

    def _place(self, index: int) -> tuple[int, int]:
        """Line and column of a known character, from 1."""
        breaks = self._known.count("\n", self.at, index)
        if not breaks:
            return self.line, self._column + index - self.at
        return self.line + breaks, index - self._known.rfind("\n", self.at, index)
