"""Which files are the user's text, and which of them are held out? Whatever a folder holds is read or named.

A folder is read with its subfolders. Names say what is training, validation or test where they say it of
all text there: `train.jsonl`, `wiki.valid.txt`, `train-00000-of-00004.parquet`, or a subfolder `validation`.
A name that would take some of many files, as `the_night_train.txt` among sixty tales, is refused.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lab.config.schema import Data
from lab.config.strict import ConfigError, printable
from lab.data.readers import FORMATS, SUFFIXES, is_read, kind

TRAIN, VALIDATION, TEST = "train", "validation", "test"
SIDES = {
    "train": TRAIN,
    "training": TRAIN,
    "val": VALIDATION,
    "valid": VALIDATION,
    "validation": VALIDATION,
    "dev": VALIDATION,
    "test": TEST,
}
SIDE_NAME = re.compile(
    rf"(?:(?P<prefix>.*)[-_.])?(?P<side>{'|'.join(SIDES)})(?:[-_.]?\d+(?:-of-\d+)?(?:-[0-9a-f]+)?)?",
    re.IGNORECASE,
)
ABOUT_THE_TEXT = ("readme", "license", "licence")
NAMED = 3  # files that a message names; the others are counted


class Skipped(NamedTuple):
    """Files that are not read, by their names in the folder, and why."""

    why: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class TextFiles:
    """The files of each split, in the order of reading; no validation files means: hold documents out."""

    training: tuple[Path, ...]
    validation: tuple[Path, ...]
    skipped: tuple[Skipped, ...]


class _Entry(NamedTuple):
    """A text file of a folder. side: what its name says it is, None where it says nothing; whole: it says
    that with its whole name, or its folder's; prefix: what stands before it otherwise.
    """

    path: Path
    name: str
    side: str | None
    whole: bool
    prefix: str


@dataclass(frozen=True)
class _Found:
    """What a path holds, by what it is for."""

    training: list[_Entry]
    validation: list[_Entry]
    skipped: list[Skipped]


def find(data: Data) -> TextFiles:
    """The files that `data` names. Raises ConfigError."""
    if data.path is None:
        raise ConfigError(f"data.path = null: data={data.name} needs a file or folder. Set data.path.")
    found = _found(data.path, "data.path")
    training, validation, skipped = found.training, found.validation, list(found.skipped)
    if not training:
        raise ConfigError(f"data.path = {data.path}: holds validation files only. Add train.* to the folder.")
    if data.validation_path is not None:
        if validation:
            names = tuple(entry.name for entry in validation)
            skipped.append(Skipped("data.validation_path is given", names))
        held_out = _found(data.validation_path, "data.validation_path")
        validation = held_out.validation or held_out.training
        rest = held_out.training if held_out.validation else []
        skipped += [*held_out.skipped, *_skipped("for training", rest)]
    both = {_identity(entry.path) for entry in validation}
    for entry in training:
        if _identity(entry.path) in both:
            raise ConfigError(
                f"data.validation_path = {entry.path}: same file for both splits. Give two files."
            )
    return TextFiles(_paths(training), _paths(validation), tuple(skipped))


def names_of(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(map(printable, names[:NAMED])) + (f" and {more:,} more" if more > 0 else "")


def _paths(entries: Sequence[_Entry]) -> tuple[Path, ...]:
    return tuple(entry.path for entry in entries)


def _identity(path: Path) -> tuple[int, int]:
    """Equal for one file under two names."""
    status = path.stat()
    return status.st_dev, status.st_ino


def _skipped(why: str, entries: Sequence[_Entry]) -> list[Skipped]:
    return [Skipped(why, tuple(entry.name for entry in entries))] if entries else []


def _found(name: str, key: str) -> _Found:
    """What a file or a folder holds. Raises ConfigError."""
    path = _expanded(name, key)
    if not path.is_dir():
        return _Found([_Entry(_text_file(path, key), path.name, None, True, "")], [], [])
    entries, skipped = _inside(path, key)
    about = [entry for entry in entries if _is_about(entry)]
    if len(about) < len(entries):
        entries = [entry for entry in entries if not _is_about(entry)]
        skipped += _skipped("about the text", about)
    if not entries:
        there = f" It holds {names_of([n for s in skipped for n in s.names])}." if skipped else ""
        raise ConfigError(f"{key} = {path}: no file in this folder ends in {FORMATS}.{there}")
    return _by_side(path, key, entries, skipped)


def _is_about(entry: _Entry) -> bool:
    return _stem(entry.path).lower() in ABOUT_THE_TEXT


def _by_side(folder: Path, key: str, entries: list[_Entry], skipped: list[Skipped]) -> _Found:
    """Text files by what their names say they are for. Raises ConfigError where names take some of many."""
    train, validation, test, others = (
        [entry for entry in entries if entry.side == side] for side in (TRAIN, VALIDATION, TEST, None)
    )
    skipped = [*skipped, *_skipped("test split", test)]
    if others:
        split = any(e.whole for e in train) and any(e.whole for e in validation)
        prefixes = {_within(entry.path, _stem(entry.path)) for entry in others}
        doubtful = [
            entry
            for entry in (*train, *validation, *test)
            if not entry.whole and (entry.side == TRAIN or _within(entry.path, entry.prefix) not in prefixes)
        ]
        if not split and (takers := train or doubtful):
            raise _some_of_many(folder, key, takers, others)
        if split:
            skipped += _skipped("no split in the name", others)
        else:
            train = others
    if not train and not validation:
        names = names_of([entry.name for entry in test])
        raise ConfigError(f"{key} = {folder}: holds test files only ({names}). Set {key} to a file.")
    return _Found(train, validation, skipped)


def _some_of_many(folder: Path, key: str, takers: Sequence[_Entry], others: Sequence[_Entry]) -> ConfigError:
    first = takers[0]
    use, way = {
        TRAIN: ("the only text trained on", f"set {key} to what is to be read"),
        VALIDATION: ("the validation text", "move it out and set data.validation_path to it"),
        TEST: ("left out as a test split", "move it out of the folder"),
    }[first.side or TRAIN]
    named, unnamed = (names_of([entry.name for entry in some]) for some in (takers, others))
    return ConfigError(
        f"{key} = {folder}: by name {named} would be {use}, of {len(takers) + len(others):,} text files "
        f"(others: {unnamed}). Rename {first.name} to read it like them, or {way}."
    )


def _within(path: Path, prefix: str) -> tuple[Path, str]:
    return path.parent, prefix.lower()


def _inside(folder: Path, key: str) -> tuple[list[_Entry], list[Skipped]]:
    """The text files below a folder, by path, and what else lies there."""
    entries: list[_Entry] = []
    hidden: list[str] = []
    unread: list[str] = []
    for path in _walk(folder, key, hidden):
        name = path.relative_to(folder).as_posix()
        if path.name.startswith("."):
            hidden.append(name)
        elif not is_read(path):
            unread.append(name)
        elif not path.is_file():
            raise ConfigError(f"{key} = {path}: is no regular file. Remove or rename it.")
        else:
            entries.append(_entry(path, name))
    reasons = (("hidden", hidden), (f"ends in none of {', '.join(SUFFIXES)}", unread))
    return entries, [Skipped(why, tuple(names)) for why, names in reasons if names]


def _walk(folder: Path, key: str, hidden: list[str]) -> Iterator[Path]:
    """Every file below a folder in the order of paths; hidden folders are noted and not entered."""

    def fail(error: OSError) -> None:
        raise ConfigError(f"{key} = {error.filename}: can't be read ({error.strerror}).") from error

    entered: set[tuple[int, int]] = set()  # a link to a folder further up would make a circle
    found: list[Path] = []
    for place, folders, names in os.walk(folder, onerror=fail, followlinks=True):
        here = Path(place)
        entered.add(_identity(here))
        hidden += [(here / name).relative_to(folder).as_posix() + "/" for name in folders if name[0] == "."]
        folders[:] = [n for n in folders if n[0] != "." and _identity(here / n) not in entered]
        found += [here / name for name in names]
    yield from sorted(found)


def _entry(path: Path, name: str) -> _Entry:
    """What a file's name says; its whole name before its folders', theirs before a part of its name."""
    match = SIDE_NAME.fullmatch(_stem(path))
    if match and match["prefix"] is None:
        return _Entry(path, name, SIDES[match["side"].lower()], True, "")
    for folder in reversed(name.lower().split("/")[:-1]):
        if folder in SIDES:
            return _Entry(path, name, SIDES[folder], True, "")
    if match:
        return _Entry(path, name, SIDES[match["side"].lower()], False, match["prefix"])
    return _Entry(path, name, None, False, "")


def _stem(path: Path) -> str:
    return path.name[: -len(kind(path))]


def _expanded(name: str, key: str) -> Path:
    """The path with ~ spelt out. Raises ConfigError if the system can't say whether it is there."""
    try:
        path = Path(name).expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{key} = {name}: can't be read ({reason}).") from error
    return path


def _text_file(path: Path, key: str) -> Path:
    """The file that the path itself names. Raises ConfigError."""
    if not path.exists():
        siblings = sorted(p.name for p in path.parent.iterdir())[:8] if path.parent.is_dir() else []
        there = f"In that folder: {', '.join(siblings)}." if siblings else "Nor is there such a folder."
        raise ConfigError(f"{key} = {path}: no such file. {there}")
    if not path.is_file():
        raise ConfigError(f"{key} = {path}: is no regular file. Copy its content to one.")
    if not is_read(path):
        raise ConfigError(f"{key} = {path}: unknown kind of file. Convert it to {FORMATS}.")
    return path
