"""`lab sample`: text that the newest checkpoint of a run writes."""

import argparse
import sys

from lab.commands import listing, places
from lab.commands.arguments import add_json, add_run, at_least_one, not_negative, seed

HELP = "print text that a run's newest checkpoint writes"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument(
        "--prompt", default="", metavar="TEXT", help="what to continue; without it, a text from its beginning"
    )
    parser.add_argument("--count", type=at_least_one, default=1, metavar="N", help="how many texts (1)")
    parser.add_argument(
        "--tokens", type=at_least_one, default=128, metavar="N", help="the most new tokens of each (128)"
    )
    parser.add_argument(
        "--temperature",
        type=not_negative,
        default=0.8,
        metavar="T",
        help="of the softmax; 0 for the likeliest token (0.8)",
    )
    parser.add_argument("--seed", type=seed, default=0, metavar="S", help="of the draws (0)")
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.plan.branch import run_named
    from lab.sweep.progress import preparing

    name = run_named(options.name, places.store(), asked=f"{options.name} (command line)")
    from lab.checkpoint.texts import write

    with preparing() as show:
        texts = write(
            name,
            places.store(),
            cache=places.CACHE,
            progress=show,
            prompt=options.prompt,
            count=options.count,
            tokens=options.tokens,
            temperature=options.temperature,
            seed=options.seed,
        )
    if options.json:
        rows = [
            {"id": w.run_id, "state": "written", "step": w.step, "prompt": w.prompt, "text": w.text}
            for w in texts
        ]
        listing.show(rows, as_json=True, columns=())
        return 0
    print(f"run {texts[0].run_id}, step {texts[0].step}", file=sys.stderr)
    for number, written in enumerate(texts, start=1):
        if len(texts) > 1:
            print(f"--- {number}")
        print(written.prompt + written.text)
    return 0
