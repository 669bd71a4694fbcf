"""`lab axes`: what can be varied, and where each variant comes from."""

import argparse

from lab.commands import listing
from lab.commands.arguments import add_json

HELP = "list the design axes, their variants and sources"

arguments = add_json


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.config.compose import variants

    rows = [
        {"id": f"{v.group}={v.name}", "state": "default" if v.default else "available", "what": v.what}
        for v in variants()
    ]
    listing.show(rows, as_json=options.json, columns=("id", "state", "what"))
    return 0
