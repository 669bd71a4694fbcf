"""What a run's newest checkpoint writes, and what it becomes elsewhere: `lab sample`, `export`."""

import argparse
import sys

from lab.commands import listing, places


def sample(options: argparse.Namespace, overrides: list[str]) -> int:
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
        listing.show(texts, as_json=True, columns=())
        return 0
    print(f"run {texts[0]['id']}, step {texts[0]['step']}", file=sys.stderr)
    for number, row in enumerate(texts, start=1):
        if len(texts) > 1:
            print(f"--- {number}")
        print(row["prompt"] + row["text"])
    return 0


def export(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.plan.branch import run_named
    from lab.sweep.progress import preparing

    name = run_named(options.name, places.store(), asked=f"{options.name} (command line)")
    from lab.checkpoint.export import folder

    with preparing() as show:
        about = folder.write(name, places.store(), options.folder, cache=places.CACHE, progress=show)
    rows = [{"id": str(listing.shown(options.folder)), "state": "written", **about}]
    listing.show(rows, as_json=options.json, columns=("id", "state", "architecture", "run_id", "step"))
    return 0
