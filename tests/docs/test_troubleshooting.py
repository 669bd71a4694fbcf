"""The messages on the page are the ones that people get: its commands are given, their answers compared."""

import re
import shlex
import subprocess

import pytest

from lab.config import compose
from tests.docs.pages import PAGES
from tests.paths import ROOT

PAGE = (ROOT / "docs/troubleshooting.md").read_text()
SHOWN = re.findall(r"^```console\n\$ (.+)\n((?:.+\n)+)```$", PAGE, re.M)
OF_MAKE = [shown for shown in SHOWN if shown[0].startswith("make ")]
OF_LAB = [shown for shown in SHOWN if shown[0].startswith("lab ")]


def says(page: str, terminal: str) -> bool:
    """Whether the terminal's line is the page's, which may end in ... where the other goes on."""
    start, cut, _ = page.strip().partition(" ...")
    return terminal.startswith(start) if cut else terminal == start


@pytest.mark.parametrize(("command", "answer"), OF_LAB, ids=[command for command, _ in OF_LAB])
def test_a_message_is_the_one_that_the_command_gives(command, answer, lab, tmp_path, monkeypatch, capsys):
    (tmp_path / "story.txt").write_text("One story only.\n")
    (tmp_path / "thesis.docx").write_text("")
    (tmp_path / "windows.txt").write_bytes("text".encode("utf-16"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setattr(compose, "has_gpu", lambda: False)
    assert lab(*shlex.split(command)[1:]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(told) == 1 and says(answer, told[0]), told


@pytest.mark.parametrize(("command", "answer"), OF_MAKE, ids=[command for command, _ in OF_MAKE])
def test_make_says_what_the_page_says(command, answer):
    done = subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert says(answer, re.sub(r"^Makefile:\d+: \*\*\* ", "", done.stderr.strip()))


def test_every_example_on_the_page_is_tried():
    assert len(OF_LAB) + len(OF_MAKE) == PAGE.count("```console") > 15
    assert not [
        page for page in PAGES if page.name != "troubleshooting.md" and "```console" in page.read_text()
    ]


def test_the_fragments_in_the_tables_stand_in_the_code():
    files = [*(ROOT / "lab").rglob("*.py"), ROOT / "Makefile"]
    code = "".join(path.read_text() for path in files)
    code = re.sub(r'"\s*\n\s*f?"', "", code).replace("$(TORCH_INDEX)", "https://download.pytorch.org/whl/cpu")
    for row in re.findall(r"^\| (`.+?) \| ", PAGE, re.M):
        for fragment in re.findall(r"`([^`]{12,})`", row):
            assert fragment in code, fragment
