"""What does each command of `lab` take? One function a command, which adds its arguments to a parser."""

import argparse
from pathlib import Path

ABLATIONS = Path(__file__).resolve().parents[2] / "ablations"


def ablations() -> list[str]:
    return sorted(path.stem for path in ABLATIONS.glob("*.yaml"))


def _overrides(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="Hydra overrides, such as norm=layernorm optimizer.lr=1e-3",
    )


def overrides(parser: argparse.ArgumentParser) -> None:
    _overrides(parser)
    listed(parser)


def train(parser: argparse.ArgumentParser) -> None:
    _overrides(parser)
    _retry(parser)
    parser.add_argument(
        "-m", "--multirun", action="store_true", help="expand sweeps such as ffn_ratio=1,2,4 seed=0,1"
    )
    parser.add_argument("--cfg", "-c", choices=("job",), help="print the composed configuration and stop")
    parser.add_argument(
        "--info",
        "-i",
        nargs="?",
        const="all",
        help="Hydra's account of the composition: defaults, defaults-tree, searchpath",
    )
    listed(parser)


def sweep(parser: argparse.ArgumentParser) -> None:
    _ablation(parser)
    parser.add_argument(
        "--plan", action="store_true", help="print arms, counts, mismatch and time; start nothing"
    )
    parser.add_argument(
        "--search",
        action="store_true",
        help="first search the learning rate of each arm, on seeds of its own; then train at each arm's best and at one rate",
    )
    parser.add_argument(
        "--published",
        action="store_true",
        help="take runs from the lines published in results/, of this torch and kind of device, instead of training them again",
    )
    _retry(parser)
    listed(parser)


def plan(parser: argparse.ArgumentParser) -> None:
    _ablation(parser)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write resolved runs and token shards to DIR. python -m lab.sweep.away DIR trains them on a machine with this "
        "repository, torch 2.11 or newer and numpy; lab collect DIR merges them. engine.device=cuda plans for a GPU there",
    )
    listed(parser)


def collect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="a folder of lab plan NAME --out DIR, back again"
    )
    listed(parser)


def _ablation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="an ablation: " + ", ".join(ablations()))
    _overrides(parser)
    parser.add_argument(
        "--seeds", type=_at_least_one, metavar="N", help="paired seeds 0 ... N-1 of every arm"
    )
    parser.add_argument(
        "--with",
        dest="extra_arms",
        action="append",
        default=[],
        metavar="ARM",
        help="add an optional arm of the ablation",
    )
    parser.add_argument(
        "--match", choices=("none",), help="keep each arm's own width instead of matching parameters"
    )


def _retry(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--retry",
        action="store_true",
        help="train again what failed, or ended under another torch or kind of device",
    )


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: needs a whole number of 1 or more")
    return int(text)


def listed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print records for machines")


def name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="an ablation")
    listed(parser)


def publish(parser: argparse.ArgumentParser) -> None:
    name(parser)
    parser.add_argument(
        "setting", nargs="?", metavar="SETTING", help="which of its settings, where there are several"
    )


def skills(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="finished runs on stories: RUN or LABEL=RUN")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="write the learning curves to this PNG")
    listed(parser)


def tune(parser: argparse.ArgumentParser) -> None:
    from lab.sweep import space

    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = f"{parser.description}\n\n{space.__doc__}"
    parser.add_argument("name", metavar="NAME", help="of the study; the same command goes on with it")
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="ranges to search, see above, and plain overrides of every run",
    )
    parser.add_argument(
        "--sampler", choices=("tpe", "sobol", "grid"), default="tpe", help="what suggests trials (tpe)"
    )
    parser.add_argument("--trials", type=_at_least_one, default=24, metavar="N", help="trials in all (24)")
    parser.add_argument(
        "--batch", type=_at_least_one, default=8, metavar="N", help="trials that are thinned together (8)"
    )
    parser.add_argument(
        "--factor",
        type=_at_least_one,
        default=2,
        metavar="N",
        help="successive halving: 1 of N trials goes on at each rung (2); 1 trains all of them to the end",
    )
    parser.add_argument(
        "--seed", type=_seed, default=0, metavar="S", help="of the sampler (0); that of runs is seed=S"
    )
    parser.add_argument(
        "--storage", metavar="URL", help="a database for Optuna instead of results/tune/NAME.journal"
    )
    listed(parser)


def exact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="CLAIM", help="one claim or more; all without")
    listed(parser)


def measure(parser: argparse.ArgumentParser) -> None:
    exact(parser)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where times are taken")


def claims(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--write", action="store_true", help="write results/LEDGER.md and results/ledger.html"
    )
    parser.add_argument("--todo", action="store_true", help="list what is still to be run, cheapest first")
    parser.add_argument(
        "--run",
        dest="go",
        action="store_true",
        help="run it, as far as --budget goes, and publish it in results/",
    )
    parser.add_argument(
        "--budget", type=_not_negative, default=60.0, metavar="MINUTES", help="core-minutes for --run (60)"
    )
    listed(parser)


def noise(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="size, data and its paths, engine and tracker; the baseline stays as it is",
    )
    _retry(parser)
    listed(parser)


def sample(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help="a run with a checkpoint: its id or the beginning of it")
    parser.add_argument(
        "--prompt", default="", metavar="TEXT", help="what to continue; without it, a text from its beginning"
    )
    parser.add_argument("--count", type=_at_least_one, default=1, metavar="N", help="how many texts (1)")
    parser.add_argument(
        "--tokens", type=_at_least_one, default=128, metavar="N", help="the most new tokens of each (128)"
    )
    parser.add_argument(
        "--temperature",
        type=_not_negative,
        default=0.8,
        metavar="T",
        help="of the softmax; 0 for the likeliest token (0.8)",
    )
    parser.add_argument("--seed", type=_seed, default=0, metavar="S", help="of the draws (0)")
    listed(parser)


def export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help="a run with a checkpoint: its id or the beginning of it")
    parser.add_argument(
        "--to",
        choices=("hf",),
        required=True,
        help="hf: weights, configuration and tokenizer for transformers",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="a new folder, or that of an earlier export")
    listed(parser)


def _not_negative(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: needs a finite number of 0 or more")
    return value


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text}: needs a whole number from 0 to 4294967295")
    return int(text)


def completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "words"))
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
