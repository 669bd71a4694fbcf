"""How do chosen options and single values become one tree of plain values?

Hydra's `compose` reads and merges every file of conf/ again at each call, a fifth of a CPU second; a plan
composes once an arm. So Hydra composes the baseline once a process, and what is asked for is exchanged in
it: another option takes the place of the baseline's, then single values are merged as Hydra merges them. For
options that keep to their own group, as all of conf/ do, that is what Hydra's own composition gives.
"""

import copy
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast


def tree(conf: Path, texts: Sequence[str]) -> dict[str, Any]:
    """The resolved values of the tree below `conf` with overrides `key=value` that were checked before.

    Raises OmegaConf's MissingMandatoryValue where a value that must be given is not, and its other
    exceptions for a value that does not fit the tree.
    """
    from omegaconf import OmegaConf

    overrides = [parsed(text) for text in texts]
    options = [item for item in overrides if (conf / item.key_or_group).is_dir()]
    whole = dict(_baseline(conf))
    for item in options:
        chosen = cast(str | list[str], item.value())
        names = (chosen,) if isinstance(chosen, str) else tuple(chosen)
        whole[item.key_or_group] = _exchanged(conf, item.key_or_group, names)
    values = [item for item in overrides if item not in options]
    # OmegaConf takes a millisecond for every part, so it gets those alone that it changes.
    moving = {item.key_or_group.partition(".")[0] for item in values}
    moving |= {key for key, part in whole.items() if re.search(r"\$\{|\?\?\?", str(part))}
    moving |= {name for key in moving for name in re.findall(r"\$\{(\w+)", str(whole.get(key)))}
    found = OmegaConf.create({key: part for key, part in whole.items() if key in moving})
    OmegaConf.set_struct(found, True)
    for item in values:
        OmegaConf.update(found, item.key_or_group, item.value(), merge=True)
    moved = cast(dict, OmegaConf.to_container(found, resolve=True, throw_on_missing=True))
    return {key: moved[key] if key in moving else copy.deepcopy(part) for key, part in whole.items()}


@cache
def parsed(text: str) -> Any:
    """One `key=value` as Hydra reads it, which takes it a millisecond. Raises HydraException."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create().parse_override(text)


@cache
def _exchanged(conf: Path, group: str, names: tuple[str, ...]) -> Any:
    """A group with other options than the baseline's, laid over what config.yaml says of it."""
    from omegaconf import OmegaConf

    own = content(conf / "config.yaml").get(group, {})
    return OmegaConf.to_container(
        OmegaConf.merge(own, *(content(conf / group / f"{name}.yaml") for name in names))
    )


@cache
def content(path: Path) -> dict[str, Any]:
    """The plain content of one file; references stay text."""
    from omegaconf import OmegaConf

    return cast(dict, OmegaConf.to_container(OmegaConf.load(path))) or {}


@cache
def _baseline(conf: Path) -> dict[str, Any]:
    """What Hydra composes where nothing is asked for; references stay text."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(conf), version_base="1.3"):
        return cast(dict, OmegaConf.to_container(compose("config")))
