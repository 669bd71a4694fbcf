"""`lab train`."""

import argparse
import sys

from lab.commands import places
from lab.commands.jobs import execute, reopen, told
from lab.config.strict import ConfigError


def train(options: argparse.Namespace, overrides: list[str]) -> int:
    if options.cfg or options.info:
        return _hydra(options, overrides)
    from lab.config.compose import expand
    from lab.plan.planning import make_single
    from lab.sweep.progress import preparing

    points = expand(overrides) if options.multirun else [overrides]
    with preparing() as show:
        plan = make_single(points, results=places.RESULTS, cache=places.CACHE, progress=show)
    print(f"{len(plan.jobs)} to train: {plan.record['setting']}", file=sys.stderr)
    if options.retry:
        reopen(plan)
    execute(plan, quiet=options.json)
    return told(plan, group="train", options=options)


def _hydra(options: argparse.Namespace, overrides: list[str]) -> int:
    """Hydra's own --cfg and --info on the same tree, after our own check of the overrides."""
    import hydra

    from lab.config.compose import CONF, Override, checked, machine_defaults

    flags = [f"--{flag}={value}" for flag, value in (("cfg", options.cfg), ("info", options.info)) if value]
    written = [Override(text) for text in overrides]
    texts, _, problems = checked([*machine_defaults(written), *written])
    if problems:
        raise ConfigError(problems)
    sys.argv = ["lab train", *texts, "hydra.run.dir=.", "hydra.output_subdir=null", *flags]
    hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(lambda config: None)()
    return 0
