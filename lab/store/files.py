"""Files that are whole or absent: strict JSON, written to a temporary name, synced and renamed."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.config.strict import ConfigError


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a committed file, one a line; none without it. Raises ConfigError naming file,
    line and fix.
    """
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), start=1):
        try:
            value = json.loads(line)
            if not isinstance(value, dict):
                raise ValueError("no object")
        except ValueError as error:
            raise ConfigError(
                f"{path}, line {number}: holds no JSON object. Restore the file from the commit."
            ) from error
        yield value


def dumps(value: Any, **options: Any) -> str:
    """Strict JSON with sorted keys; numbers that are not finite become null."""
    return json.dumps(_finite(value), allow_nan=False, sort_keys=True, **options)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write so that a reader sees the old file or the whole new one, even across a power cut."""
    content = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_record(path: Path, *, fix: str) -> dict[str, Any]:
    """A JSON object from a file. Raises ConfigError naming the file and the fix."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read ({type(error).__name__}). {fix}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: holds no JSON object. {fix}")
    return value
