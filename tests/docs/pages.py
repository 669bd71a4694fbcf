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
        """Without the settings."""
        return [word for word in shlex.split(self.text) if word not in self.settings]

    @property
    def settings(self) -> list[str]:
        """SIZE=micro, of the shell or of make."""
        return [word for word in shlex.split(self.text) if re.match(r"[A-Z_]+=", word)]


def blocks(text: str) -> list[tuple[str, str]]:
    """The language of every fenced block, empty where it has none, and what stands in it."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)


def written(page: Path) -> Iterator[tuple[str, bool]]:
    """What may be a command: the lines of blocks without a language, and code in sentences."""
    text = page.read_text()
    plain = [block for language, block in blocks(text) if not language]
    yield from ((line, True) for block in plain for line in block.splitlines())
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
