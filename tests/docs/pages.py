"""The pages, and the commands that they tell their readers to type."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.paths import ROOT

PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
PROGRAMS = r"make$|make |lab |python -m |\.venv/bin/\S+ "


class Command(NamedTuple):
    """A command as it stands on a page, without its comment and what its reader may leave out; whole where it
    is to be typed, and not where a sentence speaks of it.
    """

    page: str
    text: str
    whole: bool

    @property
    def words(self) -> list[str]:
        return [
            word for word in shlex.split(self.text) if "=" not in word or not word.split("=")[0].isupper()
        ]

    @property
    def settings(self) -> list[str]:
        """SIZE=micro, of the shell or of make."""
        return [word for word in shlex.split(self.text) if word not in self.words]


def fenced(text: str) -> list[str]:
    """The blocks of a page that hold commands: those without a language."""
    return re.findall(r"^```\n(.*?)^```$", text, re.M | re.S)


def written(page: Path) -> Iterator[tuple[str, bool]]:
    text = page.read_text()
    yield from ((line, True) for block in fenced(text) for line in block.splitlines())
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    yield from ((span, False) for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose))


def commands() -> list[Command]:
    """Every command of every page, each once."""
    found = {}
    for page in PAGES:
        for line, whole in written(page):
            text = re.sub(r"\s#\s.*|\s*\[[A-Z][^]]*\]|\s\.\.\.", "", line).strip().removeprefix("$ ")
            bare = re.sub(r"^([A-Z_]+=\S+ )+", "", text)
            if re.match(PROGRAMS, bare):
                found.setdefault(text, Command(page.name, text, whole))
    return list(found.values())
