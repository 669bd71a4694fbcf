"""Is there code for the optimizer and the schedule of a run? Asked before any run of a sweep starts."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from lab.config.schema import Choice, RunConfig
from lab.config.strict import ConfigError
from lab.train import optimizer, schedule


def refuse_unknown(configs: Iterable[RunConfig]) -> None:
    """Raises ConfigError that names every optimizer and schedule which has a YAML and no code, or another
    one than its YAML states.
    """
    problems: list[str] = []
    for config in configs:
        problems += _problems("optimizer", optimizer.VARIANTS, config.optimizer)
        problems += _problems("schedule", schedule.VARIANTS, config.schedule)
    if problems:
        raise ConfigError(dict.fromkeys(problems))


def _problems(axis: str, variants: dict[str, Callable[..., Any]], choice: Choice) -> list[str]:
    asked, module = f"{axis} = {choice.name} (conf/{axis}/{choice.name}.yaml)", f"lab/train/{axis}.py"
    if choice.name not in variants:
        known = ", ".join(variants)
        return [
            f"{asked}: not implemented. Choose one of {known}, or add {choice.name} to VARIANTS of {module}."
        ]
    signature = inspect.signature(variants[choice.name]).parameters.values()
    taken = {p.name for p in signature if p.kind is p.KEYWORD_ONLY}
    if taken == choice.own.keys():
        return []
    differing = ", ".join(sorted(taken ^ choice.own.keys()))
    return [f"{asked}: its YAML and its function in {module} differ in {differing}. Make them agree."]
