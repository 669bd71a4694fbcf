"""Every key and option of conf/, as docs/configuration.md has to list them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.config.tree import content
from tests.paths import ROOT

CONF = ROOT / "conf"
TOP = content(CONF / "config.yaml")
GROUPS = sorted(path.name for path in CONF.iterdir() if path.is_dir())
BASELINE = {
    group: option for item in TOP["defaults"] if isinstance(item, dict) for group, option in item.items()
}


def files(group: str) -> list[Path]:
    return sorted((CONF / group).glob("*.yaml"))


def options() -> dict[str, str]:
    """norm=layernorm -> the comment that its YAML opens with, empty where it has none."""
    found = {}
    for group in GROUPS:
        for path in files(group):
            first = path.read_text().splitlines()[0]
            found[f"{group}={path.stem}"] = first.removeprefix("# ") if first.startswith("# ") else ""
    return found


def keys() -> dict[str, str]:
    """optimizer.lr -> its default: the baseline's, or that of the options that have it.

    The name of a group is no key of its own: it is chosen by the option. A preset (arch) has keys of others.
    """
    found = {key: shown(value) for key, value in leaves({k: v for k, v in TOP.items() if k != "defaults"})}
    for group in sorted(set(GROUPS) - {"arch"}):
        having: dict[str, dict[str, str]] = {}
        for path in files(group):
            for key, value in leaves(content(path)):
                having.setdefault(f"{group}.{key}", {})[path.stem] = shown(value)
        for key, of in having.items():
            if key != f"{group}.name":
                baseline = of.get(str(BASELINE[group]))
                listed = ", ".join(f"{value} (`{option}`)" for option, value in of.items())
                found.setdefault(key, listed if baseline is None else baseline)
    return found


def leaves(tree: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def shown(value: object) -> str:
    """As a reader writes it on the command line; a reference by the key that it leads to."""
    if isinstance(value, str) and value.startswith("${"):
        return f"`{value[2:-1]}`"
    if value == "???":
        return "must be given"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
