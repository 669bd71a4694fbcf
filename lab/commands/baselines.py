"""`lab baselines`: how well n-gram tables predict a corpus, which a model has to beat."""

import argparse

from lab.commands import jobs, listing, places
from lab.commands.arguments import add_json, add_overrides

HELP = "score n-gram tables on a corpus"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_overrides(parser)
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.config.compose import Override, compose
    from lab.config.strict import plain
    from lab.data import ngram
    from lab.plan.planned_arm import prepared
    from lab.sweep.progress import preparing

    config = compose([Override(text) for text in overrides])
    with preparing() as show:
        folder, corpus = prepared(config, cache=places.CACHE, progress=show)
    jobs.tell([corpus.account] if corpus.account else [])
    rows = [
        {"id": f"{line.order}-gram", "state": "measured", **plain(line)}
        for line in ngram.baselines(
            folder,
            documents=config.evaluation.documents,
            most_bytes=config.evaluation.bytes,
            context_length=config.size.context_length,
        )
    ]
    listing.show(rows, as_json=options.json, columns=("id", "bpb", "nats_per_token"))
    return 0
