"""The commands of `lab`: one file a command, in the order of COMMANDS, and what several of them share.

A command's file holds HELP, one line for `lab --help`; `arguments(parser)`, which adds what it takes; and
`run(options, overrides)`, which does it and returns the exit code. A new command is such a file and its
name in COMMANDS.

arguments     arguments that several commands take
places        where results and caches lie
jobs          how the jobs of any plan are carried out
run_rows      runs as rows of a listing, and what is said of those without a result
plan_rows     the arms of a plan as rows, and how long it will take
registering   the rules of a sweep, written down before it judges
reports       an ablation's report from the runs of this store
answers       what a sweep is answered with, and the command that goes on
listing       tables for people and JSON for machines

Heavy imports stay inside the functions, so that --help is instant and bad input is refused at once.
"""

import argparse
from importlib import import_module
from typing import Protocol, cast

COMMANDS = (
    "train",
    "sweep",
    "plan",
    "collect",
    "status",
    "report",
    "publish",
    "site",
    "axes",
    "baselines",
    "skills",
    "tune",
    "claims",
    "verify-exact",
    "measure",
    "noise",
    "sample",
    "export",
    "sync",
    "completion",
)


class Command(Protocol):
    """What the file of a command holds."""

    HELP: str

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what the command takes."""

    def run(self, options: argparse.Namespace, overrides: list[str]) -> int:
        """Do it; returns the exit code. Raises ConfigError for bad input, with nothing started."""


def command(name: str) -> Command:
    """The command of that name, one of COMMANDS."""
    return cast(Command, import_module(f"lab.commands.{name.replace('-', '_')}"))
