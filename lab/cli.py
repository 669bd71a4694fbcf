"""The command `lab`. Each command is one function; heavy imports stay inside, so that --help is instant.

Bad input exits 2 with every problem named and nothing started; a stopped sweep exits 130 and goes on with the same command.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab import arguments, listing
from lab.config import ConfigError, closest

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(os.environ.get("LAB_RESULTS", ROOT / "results"))
CACHE = Path(os.environ.get("LAB_CACHE", ROOT / ".cache"))
STOPPED = 130
MENTIONED = 3
RESULT_STATES = frozenset({"finished", "diverged", "pruned"})


def main(words: Sequence[str] | None = None) -> int:
    parser = _parser()
    options, rest = parser.parse_known_args(words)
    if not options.command:
        parser.print_help()
        return 0
    overrides = list(getattr(options, "overrides", []))
    unknown = [text for text in rest if text.startswith("-") or not hasattr(options, "overrides")]
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        return int(options.run(options, [*overrides, *rest]))
    except ConfigError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return STOPPED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"error: {error.filename or options.command}: {error.strerror or error}", file=sys.stderr)
        return 2


class _Parser(argparse.ArgumentParser):
    """argparse with 'Did you mean' for commands."""

    def error(self, message: str) -> Any:
        if "argument COMMAND: invalid choice: '" in message:
            word = message.split("invalid choice: '")[1].split("'")[0]
            message = f'no command "{word}".{closest(word, COMMANDS)} Known: {", ".join(COMMANDS)}.'
        print(f"error: {message}", file=sys.stderr)
        raise SystemExit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="lab",
        description="Fair, cheap, never-lost ablations of small language models.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for name, (run, help_, describe) in COMMANDS.items():
        sub = commands.add_parser(name, help=help_, description=help_, allow_abbrev=False)
        sub.set_defaults(run=run)
        describe(sub)
    return parser


def train(options: argparse.Namespace, overrides: list[str]) -> int:
    if options.cfg or options.info:
        return _hydra(options, overrides)
    from lab.compose import expand
    from lab.plan import make_single
    from lab.progress import preparing

    points = expand(overrides) if options.multirun else [overrides]
    with preparing() as show:
        plan = make_single(points, results=RESULTS, cache=CACHE, progress=show)
    print(f"{len(plan.jobs)} to train: {plan.record['setting']}", file=sys.stderr)
    return _run(plan, group="train", options=options)


def _hydra(options: argparse.Namespace, overrides: list[str]) -> int:
    """Hydra's own --cfg and --info on the same tree, after our own check of the overrides."""
    import hydra

    from lab.compose import CONF, Override, checked, machine_defaults

    flags = [f"--{flag}={value}" for flag, value in (("cfg", options.cfg), ("info", options.info)) if value]
    written = [Override(text) for text in overrides]
    texts, _, problems = checked([*machine_defaults(written), *written])
    if problems:
        raise ConfigError(problems)
    sys.argv = ["lab train", *texts, "hydra.run.dir=.", "hydra.output_subdir=null", *flags]
    hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(lambda config: None)()
    return 0


def sweep(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.runs import dumps, write_atomic

    plan = _planned(options, overrides)
    from lab import staged

    if options.search:
        staged.refuse_search(plan)
    if options.plan:
        listing.print_plan(plan, _store(), as_json=options.json)
        if options.search and not options.json:
            print(staged.foretold(plan))
        return 0

    def carry_out(part: Any, title: str) -> None:
        part.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(part.folder / "plan.json", dumps(part.record, indent=1))
        print(f"{options.name}: {title}", file=sys.stderr)
        if options.retry:
            _reopen(part)
        _execute(part, quiet=options.json)

    try:
        plan = staged.run(
            plan, _store(), carry_out, search=options.search, results=RESULTS, stop_early=options.seeds is None
        )  # fmt: skip
    except staged.Incomplete as incomplete:
        plan = incomplete.plan
    write_atomic(plan.folder / "plan.json", dumps(plan.record, indent=1))
    return _told(plan, group=options.name, options=options, write_report=True)


def _planned(options: argparse.Namespace, overrides: list[str], *, elsewhere: bool = False) -> Any:
    from lab import plan as planning
    from lab.progress import preparing

    with preparing() as show:
        return planning.make(
            options.name, overrides, results=RESULTS, cache=CACHE, seeds=options.seeds,
            extra_arms=options.extra_arms, hold=options.match, progress=show, elsewhere=elsewhere,
        )  # fmt: skip


def plan(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab import parcel

    made = _planned(options, overrides, elsewhere=options.out is not None)
    if options.out is not None:
        parcel.pack(made, options.out, _store())
    listing.print_plan(made, _store(), as_json=options.json)
    if options.out is not None and not options.json:
        where = listing.shown(options.out)
        print(f"written to {where}; there: python -m lab.worker {where}; then here: lab collect {where}")
    return 0


def collect(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab import parcel
    from lab.runs import dumps, write_atomic

    rows, record = parcel.collect(options.folder, _store()), parcel.plan_of(options.folder)
    page = None
    if "arms" in record and any(row["state"] in RESULT_STATES for row in rows):
        folder = RESULTS / "sweeps" / record["ablation"] / record["setting"]
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "plan.json", dumps(record, indent=1))
        page = _report(record, folder)
    listing.show(rows, as_json=options.json, columns=("id", "state", "arm", "seed", "note"))
    if page and not options.json:
        print(f"report: {listing.shown(page)}")
    return 0 if all(row["state"] in RESULT_STATES for row in rows) else 1


def _run(plan: Any, *, group: str, options: argparse.Namespace) -> int:
    """Train what a plan lacks and print what came of it; 0 when every run has a result."""
    if options.retry:
        _reopen(plan)
    _execute(plan, quiet=options.json)
    return _told(plan, group=group, options=options)


def _told(plan: Any, *, group: str, options: argparse.Namespace, write_report: bool = False) -> int:
    """Print what came of a plan; 0 when every run has a result."""
    page = _report(plan.record, plan.folder) if write_report else None
    rows = [
        listing.run_row(_store(), run_id, group=group, arm=job["manifest"]["job_type"])
        for run_id, job in plan.jobs.items()
    ]
    if options.json or not page:
        listing.show(rows, as_json=options.json, columns=("id", "state", "arm", "seed", "tokens", "val/bpb"))
    else:
        listing.print_outcomes(plan.folder)
        print(f"report: {listing.shown(page)}")
    ended_early = [row for row in rows if row["state"] in RESULT_STATES - {"finished"}]
    for row in ended_early[:MENTIONED]:
        print(f"{row['arm']}, seed {row['seed']}, {row['state']}: {row['reason']}", file=sys.stderr)
    if len(ended_early) > MENTIONED:
        print(f"... and {len(ended_early) - MENTIONED} more; see lab status", file=sys.stderr)
    failed = [row for row in rows if row["state"] not in RESULT_STATES]
    for reason in sorted({row["reason"] or f"run {row['id']} is {row['state']}" for row in failed}):
        print(f"error: {reason}", file=sys.stderr)
    if failed:
        print(
            f"error: {len(failed)} of {len(rows)} runs have no result; --retry runs them again.",
            file=sys.stderr,
        )
    return 1 if failed else 0


def _reopen(plan: Any) -> None:
    """Make failed runs, and finished ones of another torch or kind of device, pending again."""
    from lab.provenance import provenance
    from lab.runs import END_STATES, LIKENESS

    store = _store()
    for run_id, job in plan.jobs.items():
        here = provenance(job["device"])
        state = store.state(run_id)
        if state == "failed":
            store.reopen(run_id)
        elif state in END_STATES:
            there = store.read(run_id, "manifest.json")["provenance"]
            if any(there[key] != here[key] for key in LIKENESS):
                store.clear(run_id)


def status(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.evidence import runs_of_arms

    planned = {run_id: (plan["ablation"], arm) for plan in _plans() for run_id, arm in runs_of_arms(plan)}
    known = planned | {run_id: ("train", None) for run_id in _store().ids() if run_id not in planned}
    rows = [listing.run_row(_store(), run_id, group=group, arm=arm) for run_id, (group, arm) in known.items()]
    rows.sort(key=lambda row: (row["ablation"], row["arm"] or "", row["seed"] or 0))
    listing.show(
        rows, as_json=options.json, columns=("id", "state", "ablation", "arm", "seed", "tokens", "val/bpb")
    )
    return 0


def report(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.publish import published
    from lab.report import write

    here = {plan["setting"]: plan for plan in _plans(options.name)}
    folder = RESULTS / "sweeps" / options.name
    pages = [_report(plan, folder / setting) for setting, plan in here.items()]
    for plan, records in published(RESULTS, options.name):
        if plan["setting"] not in here:
            pages.append(write(plan, records, folder / plan["setting"]))
    if not pages:
        raise ConfigError(_never_run(options.name))
    rows = [{"id": str(listing.shown(page)), "state": "written"} for page in pages]
    listing.show(rows, as_json=options.json, columns=("id", "state"))
    return 0


def _never_run(name: str) -> str:
    return f"{name}: no sweep of it has run here. Start one with make sweep-{name}."


def publish(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab import publish as publishing

    plans = {plan["setting"]: plan for plan in _plans(options.name)}
    if not plans:
        raise ConfigError(_never_run(options.name))
    setting = options.setting or (next(iter(plans)) if len(plans) == 1 else "")
    if setting not in plans:
        raise ConfigError(f"{options.name} {setting}: name one of its settings here: {', '.join(plans)}.")
    folder = publishing.publish(plans[setting], _store(), RESULTS)
    rows = [{"id": str(listing.shown(folder)), "state": "published"}]
    listing.show(rows, as_json=options.json, columns=("id", "state"))
    return 0


def axes(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.compose import variants

    rows = [
        {"id": f"{v.group}={v.name}", "state": "default" if v.default else "available", "what": v.what}
        for v in variants()
    ]
    listing.show(rows, as_json=options.json, columns=("id", "state", "what"))
    return 0


def baselines(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.compose import Override, compose
    from lab.data import ngram
    from lab.plan import prepared
    from lab.progress import preparing

    config = compose([Override(text) for text in overrides])
    with preparing() as show:
        folder, _ = prepared(config, cache=CACHE, progress=show)
    rows = [
        {"id": f"{n['order']}-gram", "state": "measured", **n}
        for n in ngram.baselines(
            folder, documents=config.evaluation.documents, context_length=config.size.context_length
        )
    ]
    listing.show(rows, as_json=options.json, columns=("id", "bpb", "nats_per_token"))
    return 0


def skills(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.skills import compare

    columns, rows = compare(options.runs, _store(), cache=CACHE, figure=options.figure)
    listing.show(rows, as_json=options.json, columns=columns)
    return 0


def tune(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab import space, tune
    from lab.runs import NUMERICS
    from lab.trials import Trials

    tune.check_name(options.name)
    ranges, rest = space.parsed(overrides)
    trials = Trials(
        rest,
        ranges,
        _store(),
        results=RESULTS,
        cache=CACHE,
        carry_out=lambda plan: _execute(plan, quiet=options.json),
    )
    steps, points = trials.steps()
    rungs = tune.Rungs.of(steps, points=points, factor=options.factor if options.factor > 1 else None)
    about = {
        "ranges": [found.json() for found in ranges], "overrides": sorted(rest), "sampler": options.sampler,
        "seed": options.seed, "batch": options.batch, "rungs": list(rungs.steps), "factor": rungs.factor, "numerics": NUMERICS,
    }  # fmt: skip
    with tune.owner(options.name, RESULTS / "tune"):
        study = tune.open_study(options.name, storage=options.storage, folder=RESULTS / "tune", about=about)
        found = tune.search(
            study, ranges, trials.score, sampler=options.sampler, seed=options.seed,
            trials=options.trials, batch=options.batch, rungs=rungs,
        )  # fmt: skip
    if options.json:
        listing.show([vars(found)], as_json=True, columns=())
    else:
        rows = [
            row | {"params": " ".join(r.override(row["params"][r.key]) for r in ranges)}
            for row in found.trials
        ]
        listing.show(rows, as_json=False, columns=("id", "state", "value", "rung", "params"))
        print("\n".join(tune.told(found)))
    return 0 if found.best else 1


def verify_exact(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.exact import verify

    records = verify.verify(options.names)
    rows = [{"id": r["claim"], "state": "holds" if r["holds"] else "fails", **r} for r in records]
    listing.show(rows, as_json=options.json, columns=("id", "state", "check", "expected", "measured"))
    if not options.names:
        print(listing.shown(verify.write(records, RESULTS)), file=sys.stderr)
    return 0 if all(r["holds"] for r in records) else 1


def measure(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.exact import measure as measuring

    rows = []
    for record in measuring.measure(options.names, device=options.device):
        path = listing.shown(measuring.write(record, RESULTS))
        rows.append({"id": record["claim"], "state": record["outcome"], "written": str(path), **record})
    columns = ("id", "state", "core_minutes", "written")
    listing.show(rows, as_json=options.json, columns=columns)
    return 0


def claims(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab import ledger, worklist

    rows = ledger.rows(RESULTS)
    if options.write:
        from lab.report import ledger as page

        for path in page.write(rows, ledger.beyond_register(RESULTS), RESULTS):
            print(listing.shown(path), file=sys.stderr)
    if options.go:
        return worklist.run(worklist.open_work(rows, RESULTS), budget=options.budget)
    if options.todo:
        work = [
            {
                "id": " ".join(item.command),
                "state": "open",
                "core_minutes": item.minutes,
                "claims": ", ".join(item.claims),
            }
            for item in worklist.open_work(rows, RESULTS)
        ]
        listing.show(work, as_json=options.json, columns=("id", "core_minutes", "claims"))
        return 0
    shown = [
        {**row, **{f"minutes_{key}": value for key, value in row["core_minutes"].items()}} for row in rows
    ]
    listing.show(
        shown,
        as_json=options.json,
        columns=("id", "state", "kind", "minutes_estimate", "minutes_spent", "says"),
    )
    return 0


def sample(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.branch import run_named
    from lab.progress import preparing

    name = run_named(options.name, _store(), asked=f"{options.name} (command line)")
    from lab.texts import write

    with preparing() as show:
        texts = write(
            name, _store(), cache=CACHE, progress=show, prompt=options.prompt, count=options.count,
            tokens=options.tokens, temperature=options.temperature, seed=options.seed,
        )  # fmt: skip
    if options.json:
        listing.show(texts, as_json=True, columns=())
        return 0
    print(f"run {texts[0]['id']}, step {texts[0]['step']}", file=sys.stderr)
    for number, row in enumerate(texts, start=1):
        if len(texts) > 1:
            print(f"--- {number}")
        print(row["prompt"] + row["text"])
    return 0


def export(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.branch import run_named
    from lab.progress import preparing

    name = run_named(options.name, _store(), asked=f"{options.name} (command line)")
    from lab.export import folder

    with preparing() as show:
        about = folder.write(name, _store(), options.folder, cache=CACHE, progress=show)
    rows = [{"id": str(listing.shown(options.folder)), "state": "written", **about}]
    listing.show(rows, as_json=options.json, columns=("id", "state", "architecture", "run_id", "step"))
    return 0


def sync(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab import tracker
    from lab.compose import Override, compose

    to = compose([Override(text) for text in overrides]).tracker
    if to.name == "none":
        raise ConfigError("tracker = none: no tracker to send to. Leave it out, or name one.")
    sent = tracker.sync(RESULTS / "runs", RESULTS / to.name, board=to.name, project=to.project, mode=to.mode)
    listing.show(sent, as_json=options.json, columns=("id", "state", "sent"))
    return 0


def completion(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.completion import SCRIPTS, candidates

    if options.shell != "words":
        print(SCRIPTS[options.shell], end="")
        return 0
    command, word = (*options.words, "", "")[:2]
    print("\n".join(candidates(command, word, commands=list(COMMANDS), ablations=arguments.ablations())))
    return 0


COMMANDS: dict[str, Any] = {
    "train": (train, "train one run, or a Hydra multirun with -m", arguments.train),
    "sweep": (sweep, "run an ablation and write its report; the same command continues it", arguments.sweep),
    "plan": (
        plan,
        "print what a sweep would do; with --out, write it for a machine with torch and numpy only",
        arguments.plan,
    ),
    "collect": (
        collect,
        "merge the runs that python -m lab.worker DIR trained, and write their report",
        arguments.collect,
    ),
    "status": (status, "list every run and its state", arguments.listed),
    "report": (report, "rebuild an ablation's reports from its runs or its published lines", arguments.name),
    "publish": (
        publish,
        "write an ablation's runs, verdict and report under results/ for a commit",
        arguments.publish,
    ),
    "axes": (axes, "list the design axes, their variants and sources", arguments.listed),
    "baselines": (baselines, "score n-gram tables on a corpus", arguments.overrides),
    "skills": (skills, "compare runs skill by skill with the floor and the best n-gram", arguments.skills),
    "tune": (
        tune,
        "search any numeric keys with Optuna; what is dropped early is never trained",
        arguments.tune,
    ),
    "claims": (claims, "the ledger of 114 claims; what is left to run, and running it", arguments.claims),
    "verify-exact": (verify_exact, "compute every exact claim; fails if a check does", arguments.exact),
    "measure": (measure, "measure the claims on fresh models and on time", arguments.measure),
    "sample": (sample, "print text that a run's newest checkpoint writes", arguments.sample),
    "export": (
        export,
        "write a run's newest checkpoint as a folder that Hugging Face transformers loads",
        arguments.export,
    ),
    "sync": (sync, "send to W&B, or another tracker, what it is missing", arguments.overrides),
    "completion": (
        completion,
        'tab completion for bash or zsh: eval "$(lab completion bash)"',
        arguments.completion,
    ),
}


def _store() -> Any:
    from lab.runs import RunStore

    return RunStore(RESULTS / "runs")


def _plans(name: str | None = None) -> list[dict[str, Any]]:
    if name is not None and name not in arguments.ablations():
        raise ConfigError(
            f"{name}: no such ablation.{closest(name, arguments.ablations())} Known: {', '.join(arguments.ablations())}."
        )
    from lab.runs import read_record

    paths = sorted((RESULTS / "sweeps").glob(f"{name or '*'}/*/plan.json"))
    return [read_record(path, fix="Remove it, then repeat the sweep.") for path in paths]


def _execute(plan: Any, *, quiet: bool) -> dict[str, str]:
    """Train a plan's jobs with the tracker following and progress shown."""
    from lab import tracker
    from lab.progress import shown
    from lab.sweep import Stopped, execute

    store = _store()
    follower = (
        tracker.start(
            RESULTS / "runs",
            RESULTS / plan.tracker.name,
            list(plan.jobs),
            board=plan.tracker.name,
            project=plan.tracker.project,
            mode=plan.tracker.mode,
        )
        if plan.tracker.name != "none"
        else None
    )
    try:
        with shown(quiet=quiet) as show:
            return execute(plan.jobs, store, workers=plan.engine.workers, show=show)
    except Stopped:
        print("stopped; every started run is saved. The same command continues.", file=sys.stderr)
        raise KeyboardInterrupt from None
    finally:
        if follower:
            follower.close()


def _report(plan: dict[str, Any], folder: Path) -> Path:
    from lab.evidence import exact_lines, run_ids
    from lab.report import write

    store = _store()
    known = set(store.ids())
    records = [store.record(run_id) for run_id in run_ids(plan) if run_id in known]
    return Path(write(plan, records, folder, exact=exact_lines(RESULTS)))


if __name__ == "__main__":
    raise SystemExit(main())
