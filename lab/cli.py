"""The command line `lab`: finds the command (lab/commands), parses its words and turns what it raises into
an exit code.

Bad input exits 2 with every problem named and nothing started; a stopped sweep exits 130 and goes on with
the same command.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from lab.commands import COMMANDS, command
from lab.config.strict import ConfigError, closest, printable
from lab.store.states import STOPPED


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line, by default that of this process, and return its exit code."""
    given = sys.argv[1:] if words is None else list(words)
    parser = _parser(given)
    options, rest = parser.parse_known_args(given)
    if not options.command:
        parser.print_help()
        return 0
    overrides = [*options.overrides, *rest] if options.takes_overrides else []
    unknown = [text for text in rest if text.startswith("-") or not options.takes_overrides]
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        return command(options.command).run(options, overrides)
    except ConfigError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return STOPPED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        told = f"error: {error.filename or options.command}: {error.strerror or error}"
        print(printable(told), file=sys.stderr)
        return 2


class _Parser(argparse.ArgumentParser):
    """argparse with one-line errors and 'Did you mean' for commands."""

    def error(self, message: str) -> NoReturn:
        if "argument COMMAND: invalid choice: '" in message:
            word = message.split("invalid choice: '")[1].split("'")[0]
            message = f'no command "{word}".{closest(word, COMMANDS)} Known: {", ".join(COMMANDS)}.'
        print(printable(f"error: {message}"), file=sys.stderr)
        raise SystemExit(2)


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """A parser for the given words; of a command that they begin with, no other's file is read."""
    chosen = next((word for word in given if not word.startswith("-")), "")
    parser = _Parser(
        prog="lab",
        description="Fair, cheap, never-lost ablations of small language models.",
        allow_abbrev=False,
    )
    parser.set_defaults(takes_overrides=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for name in [chosen] if chosen in COMMANDS and given[0] == chosen else COMMANDS:
        found = command(name)
        sub = commands.add_parser(name, help=found.HELP, description=found.HELP, allow_abbrev=False)
        if name == chosen:
            found.arguments(sub)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
