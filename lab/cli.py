"""The command `lab`: its parser, its commands by name (lab/commands) and its exit codes.

Bad input exits 2 with every problem named and nothing started; a stopped sweep exits 130 and goes on with
the same command.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from lab.commands import arguments, checkpoints, corpora, evidence, runs, sweeps, training, tuning
from lab.config.strict import ConfigError, closest
from lab.store.states import STOPPED


def main(words: Sequence[str] | None = None) -> int:
    parser = _parser()
    options, rest = parser.parse_known_args(words)
    if not options.command:
        parser.print_help()
        return 0
    overrides = list(getattr(options, "overrides", []))
    unknown = [text for text in rest if text.startswith("-") or not hasattr(options, "overrides")]
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        return int(options.run(options, [*overrides, *rest]))
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
        print(f"error: {error.filename or options.command}: {error.strerror or error}", file=sys.stderr)
        return 2


class _Parser(argparse.ArgumentParser):
    """argparse with 'Did you mean' for commands."""

    def error(self, message: str) -> Any:
        if "argument COMMAND: invalid choice: '" in message:
            word = message.split("invalid choice: '")[1].split("'")[0]
            message = f'no command "{word}".{closest(word, COMMANDS)} Known: {", ".join(COMMANDS)}.'
        print(f"error: {message}", file=sys.stderr)
        raise SystemExit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="lab",
        description="Fair, cheap, never-lost ablations of small language models.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for name, (run, help_, describe) in COMMANDS.items():
        sub = commands.add_parser(name, help=help_, description=help_, allow_abbrev=False)
        sub.set_defaults(run=run)
        describe(sub)
    return parser


def completion(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.commands.completion import SCRIPTS, candidates

    if options.shell != "words":
        print(SCRIPTS[options.shell], end="")
        return 0
    command, word = (*options.words, "", "")[:2]
    print("\n".join(candidates(command, word, commands=list(COMMANDS), ablations=arguments.ablations())))
    return 0


COMMANDS: dict[str, Any] = {
    "train": (training.train, "train one run, or a Hydra multirun with -m", arguments.train),
    "sweep": (
        sweeps.sweep,
        "run an ablation and write its report; the same command continues it",
        arguments.sweep,
    ),
    "plan": (
        sweeps.plan,
        "print what a sweep would do; with --out, write it for a machine with torch and numpy only",
        arguments.plan,
    ),
    "collect": (
        sweeps.collect,
        "merge the runs that python -m lab.sweep.away DIR trained, and write their report",
        arguments.collect,
    ),
    "status": (runs.status, "list every run and its state", arguments.listed),
    "report": (
        runs.report,
        "rebuild an ablation's reports from its runs or its published lines",
        arguments.name,
    ),
    "publish": (
        runs.publish,
        "write an ablation's runs, verdict and report under results/ for a commit",
        arguments.publish,
    ),
    "axes": (corpora.axes, "list the design axes, their variants and sources", arguments.listed),
    "baselines": (corpora.baselines, "score n-gram tables on a corpus", arguments.overrides),
    "skills": (
        corpora.skills,
        "compare runs skill by skill with the floor and the best n-gram",
        arguments.skills,
    ),
    "tune": (
        tuning.tune,
        "search any numeric keys with Optuna; what is dropped early is never trained",
        arguments.tune,
    ),
    "claims": (
        evidence.claims,
        "the ledger of 114 claims; what is left to run, and running it",
        arguments.claims,
    ),
    "verify-exact": (
        evidence.verify_exact,
        "compute every exact claim; fails if a check does",
        arguments.exact,
    ),
    "measure": (evidence.measure, "measure the claims on fresh models and on time", arguments.measure),
    "noise": (
        evidence.noise,
        "measure how much the baseline varies by its seed alone, for the margins of later sweeps",
        arguments.noise,
    ),
    "sample": (checkpoints.sample, "print text that a run's newest checkpoint writes", arguments.sample),
    "export": (
        checkpoints.export,
        "write a run's newest checkpoint as a folder that Hugging Face transformers loads",
        arguments.export,
    ),
    "sync": (runs.sync, "send to W&B, or another tracker, what it is missing", arguments.overrides),
    "completion": (
        completion,
        'tab completion for bash or zsh: eval "$(lab completion bash)"',
        arguments.completion,
    ),
}


if __name__ == "__main__":
    raise SystemExit(main())
