"""Frozen records from plain values, strictly: unknown, missing and mistyped keys are named, each with what
to do.

The one builder of the project: configurations, ablation files and every record that is read from JSON go
through it.
"""

import contextlib
import dataclasses
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import field
from difflib import get_close_matches
from typing import Any


class ConfigError(ValueError):
    """What a user asked for can't be done. `problems` has one sentence each: key = value (source): what,
    and the fix.
    """

    def __init__(self, problems: str | Iterable[str]):
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


@contextlib.contextmanager
def collected(problems: list[str]) -> Iterator[None]:
    """What a ConfigError inside says is added to `problems`, each sentence once, instead of raised."""
    try:
        yield
    except ConfigError as error:
        problems += [problem for problem in error.problems if problem not in problems]


def neutral(value: Any) -> Any:
    """A field that changes nothing at `value`, which it has where it is missing: adding it orphans no
    earlier run.
    """
    return field(metadata={"neutral": value})


def closest(word: str, known: Iterable[str]) -> str:
    """' Did you mean "x"?' for the nearest of `known`, else nothing."""
    match = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f' Did you mean "{match[0]}"?' if match else ""


def build(cls: type, values: dict[str, Any], *, where: str = "", problems: list[str]) -> Any:
    """A frozen `cls` from nested plain values; unknown, missing and mistyped keys are added to `problems`
    (then None).
    """
    known = {f.name: f for f in dataclasses.fields(cls)}
    before = len(problems)
    if not isinstance(values, dict):
        problems.append(f"{where.rstrip('.: ')} = {show(values)}: needs a group of keys: {', '.join(known)}.")
        return None
    for key in values.keys() - known.keys():
        problems.append(f"{where}{key}: unknown key.{closest(key, known)}")
    arguments = {}
    for name, f in known.items():
        if name not in values and "neutral" in f.metadata:
            arguments[name] = f.metadata["neutral"]
        elif name not in values:
            problems.append(f"{where}{name}: must be given.")
        elif dataclasses.is_dataclass(f.type):
            arguments[name] = build(
                typing.cast(type, f.type), values[name], where=f"{where}{name}.", problems=problems
            )
        else:
            try:
                arguments[name] = convert(values[name], f.type)
            except TypeError as error:
                problems.append(f"{where}{name} = {show(values[name])}: {error}")
    return cls(**arguments) if len(problems) == before else None


def convert(value: Any, kind: Any) -> Any:
    """`value` as the annotated type, strictly: no text for numbers, no number for a truth value. Raises
    TypeError.
    """
    nullable = isinstance(kind, types.UnionType)
    if nullable:
        if value is None:
            return None
        kind = next(k for k in typing.get_args(kind) if k is not types.NoneType)
    if typing.get_origin(kind) is dict and isinstance(value, dict):
        return dict(value)
    if typing.get_origin(kind) is list and isinstance(value, list):
        return [convert(item, typing.get_args(kind)[0]) for item in value]
    if kind is bool and isinstance(value, bool):
        return value
    if kind is str and isinstance(value, str):
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int and number and float(value).is_integer():
        return int(value)
    if kind is float and number:
        return float(value)
    wanted = {
        bool: "write true or false",
        int: "needs a whole number",
        float: "needs a number",
        str: "needs text",
    }
    hint = " Write null for none." if nullable and value == "None" else ""
    other = "needs a list" if typing.get_origin(kind) is list else "needs a group of keys"
    raise TypeError(wanted.get(kind, other) + "." + hint)


def show(value: Any) -> str:
    """A value as it is written on the command line."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return "{...}" if isinstance(value, dict) else str(value)
