"""Arguments that several commands of `lab` take, and how their words become numbers.

`takes_overrides` and `takes_ablation` are noted on the parser, for lab/cli.py and for tab completion.
"""

import argparse


def add_overrides(
    parser: argparse.ArgumentParser,
    *,
    help: str = "Hydra overrides, such as norm=layernorm optimizer.lr=1e-3",
) -> None:
    """Overrides of the configuration, key=value, as many as one likes."""
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=help)
    parser.set_defaults(takes_overrides=True)


def add_json(parser: argparse.ArgumentParser) -> None:
    """--json, which every command that lists something takes."""
    parser.add_argument("--json", action="store_true", help="print records for machines")


def add_retry(parser: argparse.ArgumentParser) -> None:
    """--retry, of every command that trains."""
    parser.add_argument(
        "--retry",
        action="store_true",
        help="train again what failed, or ended under another torch or kind of device",
    )


def add_ablation(parser: argparse.ArgumentParser, *, help: str = "an ablation") -> None:
    """The name of a file in ablations/."""
    parser.add_argument("name", metavar="NAME", help=help)
    parser.set_defaults(takes_ablation=True)


def add_planning(parser: argparse.ArgumentParser) -> None:
    """What an ablation's plan is made from: its name, overrides, seeds, optional arms and matching."""
    from lab.plan.ablation import names

    add_ablation(parser, help="an ablation: " + ", ".join(names()))
    add_overrides(parser)
    parser.add_argument("--seeds", type=at_least_one, metavar="N", help="paired seeds 0 ... N-1 of every arm")
    parser.add_argument(
        "--with",
        dest="extra_arms",
        action="append",
        default=[],
        metavar="ARM",
        help="add an optional arm of the ablation",
    )
    parser.add_argument(
        "--horizon",
        type=tokens,
        metavar="TOKENS",
        help="where to end, such as 1.2M, in ablations with horizons; each has twice the tokens of the one "
        "before",
    )
    parser.add_argument(
        "--match", choices=("none",), help="keep each arm's own width instead of matching parameters"
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """A run of the store, by its id or the beginning of it."""
    parser.add_argument("name", metavar="RUN", help="a run with a checkpoint: its id or the beginning of it")


def add_claims(parser: argparse.ArgumentParser) -> None:
    """Ids of claims, none for all of them."""
    parser.add_argument("names", nargs="*", metavar="CLAIM", help="one claim or more; all without")


def at_least_one(text: str) -> int:
    """A whole number of 1 or more. Raises argparse.ArgumentTypeError for anything else."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: needs a whole number of 1 or more")
    return int(text)


def tokens(text: str) -> float:
    """A number of tokens, as 1.2M or 600k. Raises argparse.ArgumentTypeError for anything else."""
    sizes = {"k": 1e3, "M": 1e6, "G": 1e9}
    number, size = (text[:-1], sizes[text[-1]]) if text[-1:] in sizes else (text, 1.0)
    try:
        value = float(number) * size
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: needs a number of tokens, such as 1.2M")
    return value


def not_negative(text: str) -> float:
    """A finite number of 0 or more. Raises argparse.ArgumentTypeError for anything else."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: needs a finite number of 0 or more")
    return value


def seed(text: str) -> int:
    """A seed of a random generator. Raises argparse.ArgumentTypeError for what is none."""
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text}: needs a whole number from 0 to 4294967295")
    return int(text)
