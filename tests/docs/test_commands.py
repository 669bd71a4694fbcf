"""Every command of the pages is one that make, lab, or the package it belongs to would carry out: its
target, its flags, its keys and their values are all there.
"""

import argparse
import importlib.util
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from lab import cli
from lab.commands import COMMANDS
from lab.config import compose, rules
from lab.config.strict import ConfigError
from lab.plan import ablation
from lab.sweep import space
from tests.docs.pages import PAGES, Command, commands
from tests.paths import ROOT

WRITTEN = commands()
# What a reader fills in, by something that there is.
FILLED_IN = {
    "NAME": "norm",
    "RUN": "0123abcd",
    "MINUTES": "60",
    "SETTING": "nano-stories-cpu",
    "N": "3",
    "T": "0.8",
    "S": "1",
    "KEY": "optimizer.lr",
    "LOW": "1e-4",
    "HIGH": "1e-2",
}
PLACEHOLDER = re.compile(r"\b([A-Z]+)\b")
PACKAGES = {
    "wandb": {"leet", "login"},
    "tensorboard": {"--logdir"},
    "trackio": {"show", "--project"},
    "pip": {"install", "--editable"},
}


def filled_in(word: str) -> str:
    return PLACEHOLDER.sub(lambda found: FILLED_IN.get(found[1], found[1]), word)


def program_of(command: Command) -> str:
    return command.words[0].split("/")[-1]


def of(program: str) -> list:
    found = [command for command in WRITTEN if program_of(command) == program]
    return [pytest.param(command, id=f"{command.page}: {command.text}") for command in found]


@pytest.fixture(autouse=True)
def with_all_extras(monkeypatch):
    """Trackers that an extra installs are refused where it isn't."""
    monkeypatch.setattr(rules, "lack", lambda name: "")


def refused(words: list[str], *, whole: bool = True) -> str | None:
    """What `lab` says against a command line, without carrying it out. Where it isn't whole, arguments that
    can't be left out may be absent.
    """
    words = [filled_in(word) for word in words]
    parser = cli._parser(words)
    [commands] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not whole and words[0] in COMMANDS:
        flags = commands.choices[words[0]]._option_string_actions
        return next((word for word in words if word.startswith("-") and word not in flags), None)
    try:
        options, rest = parser.parse_known_args(words)
    except SystemExit:
        return "no such command, or arguments that it doesn't take"
    given = [*getattr(options, "overrides", []), *rest]
    if strange := [word for word in rest if word.startswith("-") or not options.takes_overrides]:
        return f"takes no {' '.join(strange)}"
    if options.command in ("sweep", "plan"):
        asked = ablation.load(options.name)
        arms = ablation.chosen_arms(asked, options.extra_arms)
        ablation.compose_arms(options.name, asked, arms, given)
    elif options.command in ("report", "publish"):
        ablation.load(options.name)
    elif options.command == "tune":
        ranges, given = space.parsed(given)
        assert ranges
    if options.takes_overrides:
        points = compose.expand(given) if getattr(options, "multirun", False) else [given]
        for point in points:
            compose.compose([compose.Override(word) for word in point])
    return None


@pytest.mark.parametrize("command", of("lab"))
def test_lab_takes_the_command(command: Command):
    assert refused(command.words[1:], whole=command.whole) is None


@pytest.mark.parametrize("command", of("make"))
def test_make_takes_the_command_and_lab_what_make_hands_on(command: Command, tmp_path):
    target = [filled_in(word).replace("sweep-<name>", "sweep-norm") for word in command.words[1:]]
    settings = [filled_in(word) for word in command.settings]
    words = ["make", "--dry-run", *target, *settings, f"VENV={tmp_path}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    handed_on = re.findall(rf"^{tmp_path}/bin/lab (.*)$", done.stdout, re.M)
    assert handed_on or not target or not target[0].startswith("sweep-")
    for line in handed_on:
        assert refused(shlex.split(line)) is None


@pytest.mark.parametrize("command", of("python"))
def test_python_finds_the_module_and_it_knows_the_flags(command: Command):
    module = importlib.util.find_spec(command.words[2])
    assert module is not None and module.origin is not None
    source = Path(module.origin).read_text()
    assert "__main__" in source
    assert all(f'"{word}"' in source for word in command.words[3:] if word.startswith("--"))


@pytest.mark.parametrize("command", [each for name in PACKAGES for each in of(name)])
def test_a_program_of_another_package_is_one_that_set_up_installs(command: Command):
    name = program_of(command)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = {re.split(r"\W", text)[0] for text in (*project["dependencies"], *sum(extras.values(), []))}
    assert name in asked | {"pip"}
    said = {word for word in command.words[1:] if re.fullmatch(r"(--)?[a-z]+", word)}
    assert said <= PACKAGES[name]
    assert set(re.findall(r"\.\[(\w+)\]", command.text)) <= extras.keys()


def test_wandb_has_the_commands_that_the_pages_name():
    from wandb.cli.cli import cli as commands_of_wandb

    assert PACKAGES["wandb"] <= commands_of_wandb.commands.keys()


def test_every_program_that_is_told_is_tested():
    known = {"lab", "make", "python", *PACKAGES}
    assert {program_of(command) for command in WRITTEN} <= known
    assert {command.page for command in WRITTEN} >= {"README.md", "index.md", "wandb.md", "machines.md"}


def test_every_command_of_lab_is_told():
    told = " ".join(page.read_text() for page in PAGES)
    assert not [name for name in COMMANDS if f"lab {name}" not in told]


def test_flags_that_there_are_not_would_be_found():
    for words in (["sweep", "norm", "--serach"], ["swep", "norm"], ["status", "--all"]):
        assert refused(words)
    for words in (["sweep", "normm"], ["train", "norm=layernom"], ["train", "-m", "norm=rmsnorm,layernom"]):
        with pytest.raises(ConfigError):
            refused(words)
    assert refused(["publish", "--al"], whole=False) and not refused(["publish", "--json"], whole=False)
