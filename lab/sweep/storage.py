"""Where does a study live? In a journal of its own, whose torn end is cut off, or in a database."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from lab.config.strict import ConfigError

EXAMPLE = "Write sqlite:///FILE.db, or the URL of a database whose driver is installed."


def of_journal(path: Path) -> Any:
    """Optuna's storage of a journal, which nobody else holds. Raises ConfigError for a damaged line."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    if path.exists():
        _cut_torn_end(path)
    return JournalStorage(JournalFileBackend(str(path)))


def of_database(url: str) -> Any:
    """Optuna's storage of a database, made where there is none. Raises ConfigError if it can't be opened."""
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return RDBStorage(url)
    except (SQLAlchemyError, ImportError) as error:
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise ConfigError(f"--storage {_without_password(url)}: {reason.rstrip('.')}. {EXAMPLE}") from error


def _without_password(url: str) -> str:
    return re.sub(r"://([^/@:]*):[^/@]*@", r"://\1:***@", url)


def _cut_torn_end(path: Path) -> None:
    """A process killed while it wrote leaves part of a line; what it would have said is asked again."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            json.loads(line)
        except ValueError:
            raise ConfigError(
                f"{path}, line {number}: damaged. Restore the file, or choose another name for the study."
            ) from None
    if whole != content:
        print(f"warning: {path}: a torn last line was cut off", file=sys.stderr)
        with open(path, "r+b") as file:
            file.truncate(len(whole))
