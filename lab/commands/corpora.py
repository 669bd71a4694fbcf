"""What can be varied, and how well text is predicted without a model and by skill: `lab axes`,
`baselines`, `skills`.
"""

import argparse

from lab.commands import listing, places


def axes(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.config.compose import variants

    rows = [
        {"id": f"{v.group}={v.name}", "state": "default" if v.default else "available", "what": v.what}
        for v in variants()
    ]
    listing.show(rows, as_json=options.json, columns=("id", "state", "what"))
    return 0


def baselines(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.config.compose import Override, compose
    from lab.config.strict import plain
    from lab.data import ngram
    from lab.plan.planned_arm import prepared
    from lab.sweep.progress import preparing

    config = compose([Override(text) for text in overrides])
    with preparing() as show:
        folder, _ = prepared(config, cache=places.CACHE, progress=show)
    rows = [
        {"id": f"{line.order}-gram", "state": "measured", **plain(line)}
        for line in ngram.baselines(
            folder, documents=config.evaluation.documents, context_length=config.size.context_length
        )
    ]
    listing.show(rows, as_json=options.json, columns=("id", "bpb", "nats_per_token"))
    return 0


def skills(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.checkpoint.learning import compare

    columns, rows = compare(options.runs, places.store(), cache=places.CACHE, figure=options.figure)
    listing.show(rows, as_json=options.json, columns=columns)
    return 0
