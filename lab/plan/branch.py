"""From which checkpoint of which run does a run start, and does it fit? `init_from: RUN@STEP`, checked
against the store.

The branch takes the parent's weights and optimizer moments and nothing else: its steps, schedule and
budget begin at 0. It reads on where the parent, and that one's parents, stopped in the training text.
"""

import dataclasses
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from lab.config.schema import STRUCTURAL, RunConfig, run_config
from lab.config.strict import ConfigError, closest, plain, show
from lab.store.run_record import Manifest, Parent, ReadRows, ReadText
from lab.store.run_store import RunStore


def resolve(
    run: RunConfig, store: RunStore, *, tokenizer_hash: str, source: str
) -> tuple[RunConfig, Parent | None]:
    """`run` with its parent's full id and step, and what the manifest will say of the parent; None without
    `init_from`.

    Raises ConfigError with every problem.
    """
    if run.init_from is None:
        return run, None
    asked, problems = f"init_from = {run.init_from} ({source})", []
    name, step = locate(run.init_from, store, source=source)
    try:
        manifest, parent = store.manifest(name), store.config(name)
    except ConfigError as error:
        raise ConfigError([f"{asked}: {problem}" for problem in error.problems]) from error
    if problem := _tokenizers_differ(run, parent, manifest, tokenizer_hash):
        problems.append(f"{asked}: {problem}")
    problems += [f"{asked}: {difference} A branch keeps it." for difference in _differences(run, parent)]
    if problems:
        raise ConfigError(problems)
    rows, earlier = ReadRows(parent.seed, parent.shape.context_length, step * parent.rows), manifest.parent
    about = Parent(
        run_id=name,
        step=step,
        numerics=manifest.numerics,
        tokens=(earlier.tokens if earlier else 0) + step * parent.rows * parent.shape.context_length,
        read=(*(earlier.read if earlier else ()), ReadText(parent.data_fingerprint, rows)),
    )
    return dataclasses.replace(run, init_from=f"{name}@{step}"), about


def locate(init_from: str, store: RunStore, *, source: str) -> tuple[str, int]:
    """The run and the step of a sound checkpoint in the store. Raises ConfigError."""
    asked = f"init_from = {init_from} ({source})"
    start, _, at = init_from.partition("@")
    name = run_named(start, store, asked=asked)
    kept = store.checkpoints(name)
    step = (kept[-1] if kept else 0) if at == "last" else int(at)
    if step not in kept:
        raise ConfigError(f"{asked}: {_not_kept(name, step, kept, store)}")
    if store.read_checkpoint(name, step) is None:
        others = f"Others: {_listed(s for s in kept if s != step)}."
        raise ConfigError(f"{asked}: checkpoint {step} of run {name} is damaged. {others}")
    return name, step


def run_named(start: str, store: RunStore, *, asked: str) -> str:
    """The id of the one run that is, or starts with, `start`. Raises ConfigError, `asked` first."""
    found = [name for name in store.ids() if name.startswith(start)]
    if len(found) != 1:
        raise ConfigError(f"{asked}: {_which(start, found, store)}")
    return found[0]


def _which(start: str, found: list[str], store: RunStore) -> str:
    if found:
        return f"{len(found)} runs start so: {_listed(found)}. Write more of the id."
    return f"no such run.{closest(start, store.ids())} lab status lists them."


def _not_kept(name: str, step: int, kept: list[int], store: RunStore) -> str:
    if not kept:
        if store.adopted(name):
            return (
                f"run {name} was taken from published lines. Remove {store.folder(name)} and train it here."
            )
        return f"run {name} has no checkpoint. Train it first."
    return (
        f"run {name} has no checkpoint of step {step}. Kept: {_listed(kept)}. For others remove "
        f"{store.folder(name)} and "
        f"train it again with engine.keep_every={step or 1}."
    )


def _listed(items: Any) -> str:
    return ", ".join(map(str, items)) or "none"


def _tokenizers_differ(run: RunConfig, parent: RunConfig, manifest: Manifest, tokenizer_hash: str) -> str:
    here, there = (f"{r.vocab.tokenizer} of {r.vocab.value} tokens" for r in (run, parent))
    if here != there:
        return f"the parent's tokenizer is {there}, not {here}. A branch keeps it."
    # Runs from before the hash was noted: a tokenizer is a function of the data and the vocabulary.
    same = run.data_fingerprint == parent.data_fingerprint or run.vocab.tokenizer == "bytes"
    if (manifest.tokenizer_hash or (tokenizer_hash if same else None)) == tokenizer_hash:
        return ""
    return (
        f"the parent's tokenizer was trained on other text than that of data={run.data.name}. A branch "
        "keeps it."
    )


def _differences(run: RunConfig, parent: RunConfig) -> list[str]:
    """What keeps the parent's weights or moments from fitting, as `key = value: what is wrong`."""
    theirs, found = dataclasses.asdict(parent.shape), []
    for key, value in dataclasses.asdict(run.shape).items():
        if key != "context_length":
            found.append((f"shape.{key}", value, theirs[key], value != theirs[key]))
    found.append(
        (
            "optimizer.name",
            run.optimizer.name,
            parent.optimizer.name,
            run.optimizer.name != parent.optimizer.name,
        )
    )
    found += [(*change, _unlike(other, parent)) for *change, other in _changes(run, parent)]
    unlike = [f"{key} = {show(v)}: the parent has {show(p)}." for key, v, p, differs in found if differs]
    if not unlike and _parameters(run) != _parameters(parent):
        here, there = _parameters(run), _parameters(parent)
        names = [name for name in sorted(here.keys() | there.keys()) if here.get(name) != there.get(name)]
        unlike.append(f"parameters {_listed(names)}: run and parent don't both have them, at one size.")
    return unlike


def _unlike(changed: RunConfig, parent: RunConfig) -> bool:
    """Whether the change moves parameters; one that makes no sense without others is judged with them."""
    try:
        return _parameters(changed) != _parameters(parent)
    except ConfigError:
        return False


def _changes(run: RunConfig, parent: RunConfig) -> Iterator[tuple[str, Any, Any, RunConfig]]:
    """Each choice that may add, drop or resize parameters: key, value, the parent's, and the parent with
    this one changed.
    """
    length, theirs = run.shape.context_length, parent.shape
    longer = dataclasses.replace(parent, shape=dataclasses.replace(theirs, context_length=length))
    yield "shape.context_length", length, theirs.context_length, longer
    for part in STRUCTURAL:
        value, other = getattr(run, part), getattr(parent, part)
        yield part, value["name"], other["name"], dataclasses.replace(parent, **{part: value})
    for part in ("embedding", "stability"):
        value, other = getattr(run, part), getattr(parent, part)
        for key, setting in dataclasses.asdict(value).items():
            changed = dataclasses.replace(other, **{key: setting})
            yield (
                f"{part}.{key}",
                setting,
                getattr(other, key),
                dataclasses.replace(parent, **{part: changed}),
            )


def _parameters(run: RunConfig) -> dict[str, Any]:
    """The shape of every parameter by name."""
    return _of_model(json.dumps(plain(run)))


@cache
def _of_model(run_json: str) -> dict[str, Any]:
    """Read off a model without memory."""
    import torch

    from lab.model.transformer import Transformer

    with torch.device("meta"):
        model = Transformer(run_config(json.loads(run_json)))
    return {name: tuple(p.shape) for name, p in model.named_parameters()}
