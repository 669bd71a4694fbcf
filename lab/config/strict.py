"""Frozen records from plain values, and back: the one reader and the one writer of everything that is JSON
or YAML.

Reading is strict. Unknown, missing and mistyped keys are named, each with what to do, and all of them at
once. A field may be any of these types, and lists, tuples, dicts and `| None` of them:

    bool, int, float, str     no text for a number, no number for a truth value
    a frozen dataclass        an object with its fields as keys
    a NamedTuple              an array with its fields in order
    a class with `from_plain` and `to_plain`, which reads and writes itself
"""

import contextlib
import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
Reader = Callable[[Any, str, list[str]], Any]  # (value, where, problems)
LONGEST_PROBLEM = 1600  # characters; what was typed stands at the front and what to do at the end


class ConfigError(ValueError):
    """What a user asked for can't be done. `problems` has one sentence each: key = value (source): what, and
    the fix.
    """

    def __init__(self, problems: str | Iterable[str]):
        self.problems = [printable(p) for p in ([problems] if isinstance(problems, str) else problems)]
        super().__init__("\n".join(self.problems))


def printable(text: str) -> str:
    """Text that a terminal only shows: control characters spelt out, the middle of a long one left out."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    if len(text) > LONGEST_PROBLEM:
        half = LONGEST_PROBLEM // 2
        text = f"{text[:half]} ... [{len(text) - 2 * half:,} characters] ... {text[-half:]}"
    return text


@contextlib.contextmanager
def collected(problems: list[str]) -> Iterator[None]:
    """What a ConfigError inside says is added to `problems`, each sentence once, instead of raised."""
    try:
        yield
    except ConfigError as error:
        problems += [problem for problem in error.problems if problem not in problems]


def neutral(value: Any) -> Any:
    """A field that changes nothing at `value`, which it has where it is missing: adding it orphans no earlier
    run.
    """
    return field(metadata={"neutral": value})


def absent(value: Any, *, name: str = "") -> Any:
    """A field of a record that is not written at `value`, which it has where it is missing.

    name: what the key is called in JSON where that is no name of Python.
    """
    return field(default_factory=lambda: value, metadata={"neutral": value, "omit": True, "key": name})


def key(name: str) -> Any:
    """A field whose key in JSON is no name of Python."""
    return field(metadata={"key": name})


def closest(word: str, known: Iterable[str]) -> str:
    """' Did you mean "x"?' for the nearest of `known`, else nothing."""
    match = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f' Did you mean "{match[0]}"?' if match else ""


def show(value: Any) -> str:
    """A value as it is written on the command line."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return "{...}" if isinstance(value, dict) else str(value)


def read(cls: type[T], values: Any, *, source: str = "", fix: str = "") -> T:
    """A frozen `cls` from nested plain values. Raises ConfigError with every problem, `source` before and
    `fix` behind each.
    """
    problems: list[str] = []
    make = getattr(cls, "from_plain", functools.partial(build, cls))
    found = make(values, problems=problems)
    if found is None:
        before, behind = f"{source}: " if source else "", f" {fix}" if fix else ""
        raise ConfigError(f"{before}{problem}{behind}" for problem in problems)
    return typing.cast(T, found)


def build(cls: type, values: Any, *, where: str = "", problems: list[str]) -> Any:
    """A frozen `cls` from nested plain values; unknown, missing and mistyped keys are added to `problems`
    (then None).
    """
    if not isinstance(values, dict):
        keys = ", ".join(name for name, *_ in _fields(cls))
        problems.append(f"{where.rstrip('.: ')} = {show(values)}: needs a group of keys: {keys}.")
        return None
    known, before, arguments = _fields(cls), len(problems), {}
    if unknown := values.keys() - {known_key for known_key, *_ in known}:
        names = [known_key for known_key, *_ in known]
        problems += [f"{where}{word}: unknown key.{closest(str(word), names)}" for word in unknown]
    for written, name, reader, metadata in known:
        if written in values:
            arguments[name] = reader(values[written], f"{where}{written}", problems)
        elif "neutral" in metadata:
            arguments[name] = metadata["neutral"]
        else:
            problems.append(f"{where}{written}: must be given.")
    return cls(**arguments) if len(problems) == before else None


def convert(value: Any, kind: Any) -> Any:
    """`value` as the annotated type. Raises TypeError that says what is needed."""
    problems: list[str] = []
    found = _reader(kind)(value, "", problems)
    if problems:
        raise TypeError(problems[0].removeprefix(f" = {show(value)}: "))
    return found


def plain(value: Any) -> Any:
    """A record as plain values, which `build` reads back; fields that are `absent` at their value are left
    out.
    """
    if hasattr(value, "to_plain"):
        return value.to_plain()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            f.metadata.get("key") or f.name: plain(item)
            for f in dataclasses.fields(value)
            for item in (getattr(value, f.name),)
            if not (f.metadata.get("omit") and item == f.metadata["neutral"])
        }
    if isinstance(value, dict):
        return {_written(word): plain(item) for word, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


@cache
def _fields(cls: type) -> tuple[tuple[str, str, Reader, Any], ...]:
    """(key, name, reader, metadata) of each field of a dataclass."""
    kinds = typing.get_type_hints(cls)
    return tuple(
        (f.metadata.get("key") or f.name, f.name, _reader(kinds[f.name]), f.metadata)
        for f in dataclasses.fields(typing.cast(Any, cls))
    )


@cache
def _reader(kind: Any) -> Reader:
    """How a value of a type is read: reader(value, where, problems)."""
    if kind is Any:
        return lambda value, where, problems: value
    if isinstance(kind, types.UnionType):
        inner = _reader(next(k for k in typing.get_args(kind) if k is not types.NoneType))
        return lambda value, where, problems: (
            None if value is None else _nullable(inner, value, where, problems)
        )
    if hasattr(kind, "from_plain"):
        return lambda value, where, problems: kind.from_plain(value, where=where, problems=problems)
    if dataclasses.is_dataclass(kind):
        return lambda value, where, problems: build(
            typing.cast(type, kind), value, where=f"{where}.", problems=problems
        )
    if typing.get_origin(kind) in (list, tuple):
        return _list_reader(typing.get_origin(kind), _reader(typing.get_args(kind)[0]))
    if typing.get_origin(kind) is dict:
        return _dict_reader(*typing.get_args(kind))
    if issubclass(kind, tuple):
        return _row_reader(kind)
    return _leaf_reader(kind)


def _nullable(inner: Reader, value: Any, where: str, problems: list[str]) -> Any:
    before = len(problems)
    found = inner(value, where, problems)
    if len(problems) > before and value == "None":
        problems[-1] += " Write null for none."
    return found


def _list_reader(make: Any, inner: Reader) -> Reader:
    def reader(value: Any, where: str, problems: list[str]) -> Any:
        if isinstance(value, list | tuple):
            return make(inner(item, f"{where}[{n}]", problems) for n, item in enumerate(value))
        problems.append(f"{where} = {show(value)}: needs a list.")
        return None

    return reader


def _dict_reader(keys: Any, values: Any) -> Reader:
    inner = _reader(values)

    def reader(value: Any, where: str, problems: list[str]) -> Any:
        if not isinstance(value, dict):
            problems.append(f"{where} = {show(value)}: needs a group of keys.")
            return None
        found = {}
        for word, item in value.items():
            try:
                found[keys(word)] = inner(item, f"{where}.{word}", problems)
            except ValueError:
                problems.append(f"{where}.{word}: the key must be a number.")
        return found

    return reader


def _row_reader(kind: Any) -> Reader:
    """Rows of curves come by the thousand: their length is checked, and what is in them is taken as it is."""

    def reader(value: Any, where: str, problems: list[str]) -> Any:
        if isinstance(value, list | tuple) and len(value) == len(kind._fields):
            return kind(*value)
        problems.append(f"{where} = {show(value)}: needs a list of {', '.join(kind._fields)}.")
        return None

    return reader


def _leaf_reader(kind: type) -> Reader:
    wanted = {
        bool: "write true or false",
        int: "needs a whole number",
        float: "needs a number",
        str: "needs text",
    }[kind]

    def reader(value: Any, where: str, problems: list[str]) -> Any:
        if kind in (bool, str):
            if isinstance(value, kind):
                return value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            with contextlib.suppress(OverflowError):  # an int of 400 digits
                if kind is float:
                    return float(value)
                if float(value).is_integer():
                    return int(value)
        problems.append(f"{where} = {show(value)}: {wanted}.")
        return None

    return reader


def _written(word: Any) -> str:
    """A key of JSON: a number as short as it can be written."""
    if isinstance(word, float):
        return f"{word:g}" if float(f"{word:g}") == word else repr(word)
    return str(word)
