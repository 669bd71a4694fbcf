"""One file a command: each is whole, none is forgotten in the list, and the help of one reads no other."""

import subprocess
import sys
from pathlib import Path

import pytest

import lab.commands
from lab.commands import COMMANDS, command

SHARED = set("answers arguments jobs listing places plan_rows registering reports run_rows".split())
FOLDER = Path(lab.commands.__file__).parent
HEAVY = {"torch", "hydra", "omegaconf", "numpy", "scipy", "optuna", "wandb", "matplotlib", "rich"}


def test_every_file_is_a_command_or_named_in_the_map():
    stems = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    commands = {name.replace("-", "_") for name in COMMANDS}
    assert stems == commands | SHARED
    assert all(f"\n{stem} " in lab.commands.__doc__ for stem in SHARED)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_whole_and_says_what_it_is_in_one_line(name):
    found = command(name)
    assert found.HELP and "\n" not in found.HELP and not found.HELP.endswith(".")
    assert found.__doc__.startswith(f"`lab {name}`: ")
    assert callable(found.arguments) and callable(found.run)


def loaded_by(*words: str) -> set[str]:
    """The modules that `lab` with these words has loaded when it ends."""
    code = (
        "import contextlib, io, sys\n"
        "from lab.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    main(sys.argv[1:])\n"
        "print('\\n'.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("words", [("--help",), ("train", "--help"), ("sweep", "--help")], ids=" ".join)
def test_help_loads_nothing_heavy_and_no_other_command(words):
    loaded = loaded_by(*words)
    assert not loaded & HEAVY
    if words != ("--help",):
        commands = {f"lab.commands.{name.replace('-', '_')}" for name in COMMANDS}
        assert loaded & commands == {f"lab.commands.{words[0]}"}


def test_a_flag_before_the_command_is_refused(lab, capsys):
    with pytest.raises(SystemExit) as caught:
        lab("--retry", "train")
    assert caught.value.code == 2 and "unrecognized arguments: --retry" in capsys.readouterr().err
