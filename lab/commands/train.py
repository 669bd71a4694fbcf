"""`lab train`: one run, or one for each point of a Hydra multirun; nothing is trained twice."""

import argparse
import sys

from lab.commands import jobs, places, run_rows
from lab.commands.arguments import add_json, add_overrides, add_retry
from lab.config.strict import ConfigError

HELP = "train one run, or a Hydra multirun with -m"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_overrides(parser)
    add_retry(parser)
    parser.add_argument(
        "-m", "--multirun", action="store_true", help="expand sweeps such as ffn_ratio=1,2,4 seed=0,1"
    )
    parser.add_argument("--cfg", "-c", choices=("job",), help="print the composed configuration and stop")
    parser.add_argument(
        "--info",
        "-i",
        nargs="?",
        const="all",
        help="Hydra's account of the composition: defaults, defaults-tree, searchpath",
    )
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    if options.cfg or options.info:
        return _hydra(options, overrides)
    places.refuse_unwritable()
    from lab.config.compose import expand
    from lab.plan.single import single_runs
    from lab.sweep.progress import preparing

    points = expand(overrides) if options.multirun else [overrides]
    with preparing() as show:
        work = single_runs(points, results=places.RESULTS, cache=places.CACHE, progress=show)
    print(f"{len(work.jobs)} to train: {work.setting}", file=sys.stderr)
    jobs.tell(work.accounts)
    if options.retry:
        jobs.reopen(work.jobs)
    jobs.execute(work, quiet=options.json)
    rows = run_rows.rows_of(work.jobs, group="train")
    run_rows.show_runs(rows, as_json=options.json)
    return run_rows.tell_failures(rows)


def _hydra(options: argparse.Namespace, overrides: list[str]) -> int:
    """Hydra's own --cfg and --info on the same tree, after our own check of the overrides."""
    import hydra

    from lab.config.compose import CONF, Override, checked, machine_defaults

    if options.multirun:
        return _points(options, overrides)
    flags = [f"--{flag}={value}" for flag, value in (("cfg", options.cfg), ("info", options.info)) if value]
    written = [Override(text) for text in overrides]
    texts, _, problems = checked([*machine_defaults(written), *written])
    if problems:
        raise ConfigError(problems)
    sys.argv = ["lab train", *texts, "hydra.run.dir=.", "hydra.output_subdir=null", *flags]
    hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(lambda config: None)()
    return 0


def _points(options: argparse.Namespace, overrides: list[str]) -> int:
    """The composed configuration of each point of a multirun, as YAML documents."""
    from omegaconf import OmegaConf

    from lab.config.compose import CONF, Override, checked, expand, machine_defaults
    from lab.config.tree import tree

    if options.info:
        raise ConfigError("--info (command line): shows how one configuration is composed. Leave -m out.")
    composed, problems = [], list[str]()
    for point in expand(overrides):
        written = [Override(text) for text in point]
        texts, _, found = checked([*machine_defaults(written), *written])
        problems += [problem for problem in found if problem not in problems]
        composed.append((" ".join(point), texts))
    if problems:
        raise ConfigError(problems)
    for title, texts in composed:
        print(f"--- # {title}\n{OmegaConf.to_yaml(OmegaConf.create(tree(CONF, texts)))}", end="")
    return 0
