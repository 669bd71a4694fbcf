"""From an ablation, or a few overrides, to a plan: what is asked, as the JSON that reports read, and the
jobs that answer.

Planning prepares the data and trains nothing. The record of an ablation's plan:

    ablation, title, question, source, claims, notes    from its file
    setting, size, data, device_kind                    the name of its folder, and what that is made of
    overrides, flags                                    what was asked beside, without paths
    seeds, looks, seeds_in_file                         those that judge; where it looks; the file's number if another
    match, x                                            what is held equal; what results are drawn against
    arms                                                name, family, label, x, shape, counts, mismatch, runs {seed: run id}, ...;
                                                        of a search also best_lr and runs_same_lr
    reference_lines, noise, side_by_side                bits a byte of n-grams; results/noise of the setting; pairs to draw
    search, searching, stopped                          added by lab/sweep/stages.py: the search (lab/sweep/search.py), its runs while it
                                                        lasts, and why no more seeds were trained
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.config.compose import SECRET, Override, compose
from lab.config.schema import Config
from lab.config.strict import ConfigError, collected
from lab.config.unusual import PATHS, is_unusual
from lab.plan import branch, planned_arm
from lab.plan.ablation import X_VALUES, Ablation, Arm, Match, Search, chosen_arms, compose_arms, load
from lab.plan.planned_arm import PlannedArm, device_kind, job_of, jobs_of, locate_parents
from lab.store.files import dumps, write_atomic
from lab.store.run_store import RunStore
from lab.verdict import seed_noise as noise


@dataclass(frozen=True)
class Plan:
    """What `lab sweep` will do. `record` is its JSON form, which reports read; `arms` and `search` are for
    lab/sweep/stages.py.
    """

    record: dict[str, Any]
    folder: Path
    jobs: dict[str, dict[str, Any]]
    engine: Any
    tracker: Any
    arms: tuple[PlannedArm, ...] = ()
    search: Search | None = None

    def save(self) -> None:
        """Write the record where `lab status` and reports find it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(self.folder / "plan.json", dumps(self.record, indent=1))


def make(
    name: str,
    overrides: Sequence[str],
    *,
    results: Path,
    cache: Path,
    seeds: int | None = None,
    extra_arms: Sequence[str] = (),
    hold: str | None = None,
    progress: Callable[[str, float], None] | None = None,
    elsewhere: bool = False,
) -> Plan:
    """The plan of an ablation with the user's overrides. Raises ConfigError with every problem before
    anything is prepared.

    elsewhere: the plan is for another machine, which may have a device that this one lacks.
    """
    ablation = load(name)
    arms = chosen_arms(ablation, extra_arms)
    configs = compose_arms(name, ablation, arms, overrides, elsewhere=elsewhere)
    how = ablation.match if hold is None else Match(hold, "none", ablation.match.tolerance)
    store = RunStore(results / "runs")
    given = any(text.startswith("init_from=") for text in overrides)
    source = "command line" if given else f"ablations/{name}.yaml"
    locate_parents(configs.values(), store, source)
    planned = planned_arm.resolve_all(
        arms,
        configs,
        baseline=ablation.baseline,
        how=how,
        cache=cache,
        store=store,
        progress=progress,
        source=source,
    )
    planned, merged = _distinct(planned, ablation.baseline)
    baseline = next(item for item in planned if item.name == ablation.baseline)
    if baseline.parent:  # where "last" or the beginning of an id may mean another checkpoint one day
        overrides = [
            f"init_from={baseline.run.init_from}" if text.startswith("init_from=") else text
            for text in overrides
        ]
    first, paired_seeds = baseline.config, list(range(seeds or ablation.seeds))
    device, setting = device_kind(first), _setting(baseline, overrides, hold)
    tags = [ablation.axis.key, first.size.name, first.data.name]
    jobs, runs = jobs_of(planned, seeds=paired_seeds, results=results, group=name, tags=tags)
    record = {
        "ablation": name,
        "title": ablation.title,
        "question": ablation.question,
        "source": ablation.source,
        "setting": setting,
        "size": first.size.name,
        "data": first.data.name,
        "device_kind": device,
        "overrides": [re.sub(r"(path)=.*", r"\1=PATH", text) for text in overrides],
        "flags": [*(f"--with {name}" for name in extra_arms), *([f"--match {hold}"] if hold else [])],
        "seeds": paired_seeds,
        "match": {"what": how.hold, "solve": how.solve, "tolerance": how.tolerance},
        "x": {"key": ablation.axis.key, "label": ablation.axis.label, "numeric": ablation.axis.numeric},
        "arms": [_arm_record(item, ablation, runs[item.name]) for item in planned],
        "claims": ablation.claims,
        "notes": [*ablation.notes, *merged, *_branches(planned), *_repeats(planned), *baseline.corpus.notes],
        "reference_lines": _reference_lines(baseline),
        **({"looks": ablation.looks} if ablation.looks else {}),
        **({"seeds_in_file": ablation.seeds} if len(paired_seeds) != ablation.seeds else {}),
        **(
            {"noise": measured}
            if (measured := noise.load(results, _setting(baseline, overrides, None)))
            else {}
        ),
        **({"side_by_side": ablation.side_by_side} if ablation.side_by_side else {}),
    }
    folder = results / "sweeps" / name / setting
    return Plan(record, folder, jobs, first.engine, first.tracker, tuple(planned), ablation.search)


def _setting(baseline: PlannedArm, overrides: Sequence[str], hold: str | None) -> str:
    """<size>-<data>-<device>, with a digest of whatever else was asked that changes a result."""
    asked = sorted({text for text in overrides if is_unusual(text)})
    paths = [text for text in overrides if text.partition("=")[0] in PATHS]
    config = baseline.config
    setting = f"{config.size.name}-{config.data.name}-{device_kind(config)}"
    if not asked and not paths and hold is None:
        return setting
    content = baseline.corpus.fingerprint if paths else ""
    return f"{setting}-{hashlib.sha256(json.dumps([asked, content, hold]).encode()).hexdigest()[:6]}"


def _distinct(planned: Sequence[PlannedArm], baseline: str) -> tuple[list[PlannedArm], list[str]]:
    """Arms that are one and the same at this size stand once, the baseline first; a note tells of the others."""
    kept: dict[str, PlannedArm] = {}
    notes = []
    for item in sorted(planned, key=lambda item: item.name != baseline):
        same = kept.setdefault(json.dumps(dataclasses.asdict(item.run)), item)
        if same is not item:
            notes.append(f"Arm {item.name} is the same model as arm {same.name} here and was left out.")
    return [item for item in planned if item in kept.values()], notes


def _repeats(planned: Sequence[PlannedArm]) -> list[str]:
    """A note where the budget needs the training text more than once."""
    epochs = [(item.tokens + _read_before(item)) / item.corpus.train_tokens for item in planned]
    if max(epochs) <= 1:
        return []
    return [
        f"Training passes over the text {min(epochs):.1f} to {max(epochs):.1f} times; repeated text is worth less than new."
    ]


def _read_before(item: PlannedArm) -> int:
    """Tokens of the arm's data that its parents were trained on."""
    read = item.parent["read"] if item.parent else []
    return sum(
        length * rows
        for _, length, rows in (e["rows"] for e in read if e["data"] == item.run.data_fingerprint)
    )


def _branches(planned: Sequence[PlannedArm]) -> list[str]:
    """A note for each checkpoint that arms start from."""
    arms: dict[str, list[PlannedArm]] = {}
    for item in planned:
        if item.parent:
            arms.setdefault(f"{item.parent['run_id']}@{item.parent['step']}", []).append(item)
    return [
        f"{'Every arm starts' if len(of) == len(planned) else 'Starting'} from checkpoint {name}, after "
        f"{of[0].parent['tokens']:,} tokens"  # type: ignore[index]
        + ("." if len(of) == len(planned) else f": {', '.join(item.name for item in of)}.")
        + " Budgets count from there; seeds differ in what follows alone."
        for name, of in arms.items()
    ]


def _arm_record(item: PlannedArm, ablation: Ablation, runs: dict[str, str]) -> dict[str, Any]:
    x = X_VALUES[ablation.axis.key](item.run) if ablation.axis.numeric else None
    return {
        "name": item.name,
        "family": item.arm.family,
        "label": item.arm.label.format(x="" if x is None else f"{x:.3g}"),
        "x": x,
        "overrides": item.arm.overrides,
        "baseline": item.name == ablation.baseline,
        "shape": dataclasses.asdict(item.run.shape),
        "counts": dataclasses.asdict(item.counts),
        "steps": item.run.steps,
        "tokens": item.tokens,
        "mismatch": item.mismatch,
        "runs": runs,
    }


def _reference_lines(baseline: PlannedArm) -> list[dict[str, Any]]:
    """The bigram and the best n-gram table on the baseline's shards: what a model must beat to have done
    more than count.
    """
    from lab.data.ngram import baselines

    lines = baselines(
        baseline.shards,
        documents=baseline.config.evaluation.documents,
        context_length=baseline.run.shape.context_length,
    )
    best = min(lines, key=lambda line: line["bpb"])
    counted = best["counted_tokens"]
    part = f" on {counted / 1e6:.0f} M tokens" if counted < baseline.corpus.train_tokens else ""
    return [
        {"label": f"{n['order']}-gram, Witten-Bell{part}", "bpb": n["bpb"]}
        for n in lines
        if n is best or n["order"] == 2
    ]


def make_single(
    points: Sequence[Sequence[str]],
    *,
    results: Path,
    cache: Path,
    progress: Callable[[str, float], None] | None = None,
    elsewhere: bool = False,
) -> Plan:
    """The plan of `lab train`: one run for each point of overrides. Raises ConfigError with the problems
    of all points.
    """
    from lab.plan import budget

    configs: list[Config] = []
    problems: list[str] = []
    for point in points:
        with collected(problems):
            configs.append(compose([Override(text) for text in point], elsewhere=elsewhere))
    if problems:
        raise ConfigError(problems)
    store, jobs = RunStore(results / "runs"), dict[str, dict[str, Any]]()
    locate_parents(configs, store, "command line")
    shared = {text for text in points[0] if all(text in point for point in points)}
    for config, point in zip(configs, points, strict=True):
        name = " ".join(t for t in point if t not in shared and not t.startswith("seed=")) or "run"
        folder, corpus = planned_arm.prepared(config, cache=cache, progress=progress)
        arm = Arm(family="", label=name, overrides=list(point))
        with collected(problems):
            run = budget.resolve(config, corpus)
            hash_ = corpus.tokenizer_hash
            run, parent = branch.resolve(run, store, tokenizer_hash=hash_, source="command line")
            item = PlannedArm(name, arm, config, run, budget.counts(run), 0.0, folder, corpus, parent)
            tags = [config.size.name, config.data.name]
            job = job_of(item, seed=config.seed, results=results, group="train", tags=tags)
            jobs[job["run_id"]] = job
    if problems:
        raise ConfigError(problems)
    sizes = "/".join(dict.fromkeys(f"{c.size.name}-{c.data.name}-{device_kind(c)}" for c in configs))
    record = {"ablation": "train", "setting": sizes, "device_kind": device_kind(configs[0])}
    return Plan(record, results / "sweeps" / "train", jobs, configs[0].engine, configs[0].tracker)


def make_noise(
    overrides: Sequence[str],
    *,
    results: Path,
    cache: Path,
    progress: Callable[[str, float], None] | None = None,
) -> Plan:
    """The plan of `lab noise`: the baseline of a setting and its near twin, each with `noise.SEEDS` seeds.

    Raises ConfigError with every problem before anything is prepared, one for each override that changes
    the baseline.
    """
    problems = [
        f"{text} (command line): lab noise measures the baseline of a size and a text as it is, for all sweeps of them. "
        "Leave it out; size, data, data.path, data.validation_path, engine.* and tracker.* may be given."
        for text in overrides
        if is_unusual(text) and not SECRET.search(text)
    ]
    arms = {name: Arm("", name, of) for name, of in (("baseline", []), ("twin", [noise.TWIN]))}
    configs = {}
    for name, arm in arms.items():
        with collected(problems):
            configs[name] = compose([Override(text) for text in [*overrides, *arm.overrides]])
    if problems:
        raise ConfigError(problems)
    planned = planned_arm.resolve_all(
        arms,
        configs,
        baseline="baseline",
        how=Match("none", "none", 0.0),
        cache=cache,
        store=RunStore(results / "runs"),
        source="command line",
        progress=progress,
    )
    first, seeds = planned[0].config, range(noise.SEEDS)
    tags = [first.size.name, first.data.name]
    jobs, runs = jobs_of(planned, seeds=seeds, results=results, group="noise", tags=tags)
    entries = [
        {"name": item.name, "overrides": item.arm.overrides, "runs": runs[item.name]} for item in planned
    ]
    setting = _setting(planned[0], overrides, None)
    record = {
        "ablation": "noise",
        "setting": setting,
        "device_kind": device_kind(first),
        "seeds": list(seeds),
        "arms": entries,
    }
    return Plan(record, results / "sweeps" / "noise" / setting, jobs, first.engine, first.tracker)
