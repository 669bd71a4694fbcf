"""What makes a run the run it is, as 12 hex digits: everything that its numbers depend on but code,
versions and hardware.
"""

import dataclasses
import hashlib
import json
from typing import Any

from lab.config.schema import Choice, RunConfig

NUMERICS = 2  # raised by hand when the mathematics of training, or what counts as diverged, changes
PROTOCOL = (
    2  # of how verdicts are reached; raised by hand when a rule changes; golden outcomes force the raise
)


def run_id(config: RunConfig, numerics: int = NUMERICS) -> str:
    """12 hex digits of the SHA-256 of everything that makes the run what it is. numerics: of the code that
    trained it.
    """
    values = {"numerics": numerics, **identity(config)}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def identity(config: RunConfig) -> dict[str, Any]:
    """The nested values that make a run what it is: without keys at their neutral value, and without file
    paths.
    """

    def strip(node: Any) -> dict[str, Any]:
        if isinstance(node, Choice):
            return node.settings()
        kept = {}
        for f in dataclasses.fields(node):
            value = getattr(node, f.name)
            if "neutral" in f.metadata and value == f.metadata["neutral"]:
                continue
            kept[f.name] = strip(value) if dataclasses.is_dataclass(value) else value
        return kept

    return {key: value for key, value in strip(config).items() if key != "data"}
