"""`lab sync`: what W&B, or another dashboard, is missing of the runs here, sent without doubles."""

import argparse

from lab.commands import listing, places
from lab.commands.arguments import add_json, add_overrides
from lab.config.strict import ConfigError

HELP = "send to W&B, or another tracker, what it is missing"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_overrides(parser)
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.config.compose import Override, compose
    from lab.track.backlog import sync

    to = compose([Override(text) for text in overrides]).tracker
    if to.name == "none":
        raise ConfigError("tracker = none: no tracker to send to. Leave it out, or name one.")
    sent = sync(
        places.RESULTS / "runs", places.RESULTS / to.name, board=to.name, project=to.project, mode=to.mode
    )
    listing.show([run.json() for run in sent], as_json=options.json, columns=("id", "state", "sent"))
    return 0
