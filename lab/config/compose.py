"""From `conf/` and overrides to a `Config`: Hydra composes, and everything a user typed is checked here
first.

Overrides are `key=value` with a source ("command line", "ablations/norm.yaml, arm post"). All problems are
reported at once as ConfigError, each with key, value, source and fix. Nothing a user writes can call code:
`_target_` and the `hydra` node are refused, keys can't be added, and no `instantiate` is used anywhere.
"""

import ctypes
import dataclasses
import itertools
import math
import re
import typing
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lab.config.rules import problems_of
from lab.config.schema import STRUCTURAL, TRAINED, Choice, Config
from lab.config.strict import ConfigError, build, closest, convert, show
from lab.config.tree import content, parsed, tree

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"

SECRET = re.compile(
    r"\b(sk-|hf_|ghp_|github_pat_|wandb_v1_)[\w-]{16,}|(?<![\w-])[0-9a-f]{40}(?![\w-])|://[^/\s:]+:[^/\s@]+@"
)
CALLABLE = re.compile(r"(^|\.)_(target|partial|args|recursive|convert)_(\.|$)")


class Override(NamedTuple):
    """One `key=value` and where it was written."""

    text: str
    source: str = "command line"


@cache
def groups() -> dict[str, tuple[str, ...]]:
    """Every config group with its options, read from the folders of `conf/`."""
    return {
        d.name: tuple(sorted(p.stem for p in d.glob("*.yaml"))) for d in sorted(CONF.iterdir()) if d.is_dir()
    }


@cache
def option(group: str, name: str) -> dict[str, Any]:
    """The plain content of one option file."""
    return content(CONF / group / f"{name}.yaml")


@cache
def _defaults() -> dict[str, Any]:
    """Group -> default option, a list for composite groups, from the defaults list of config.yaml."""
    entries = content(CONF / "config.yaml")["defaults"]
    return {group: name for entry in entries if isinstance(entry, dict) for group, name in entry.items()}


@cache
def leaves() -> dict[str, type]:
    """Every settable key of the closed schema, with its type; what a variant alone is told stands apart."""

    def walk(cls: type, where: str) -> Iterable[tuple[str, Any]]:
        for f in dataclasses.fields(cls):
            kind = next((k for k in (f.type, *typing.get_args(f.type)) if dataclasses.is_dataclass(k)), None)
            if kind is not None:
                yield from walk(typing.cast(type, kind), f"{where}{f.name}.")
            elif f.name not in (*STRUCTURAL, "own"):
                yield f"{where}{f.name}", f.type

    return dict(walk(Config, ""))


@cache
def has_gpu() -> bool:
    """Whether the CUDA driver sees a device; asked of the driver, since importing torch takes seconds."""
    try:
        driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(0)
    except OSError:
        return False
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def compose(overrides: Sequence[Override], *, elsewhere: bool = False) -> Config:
    """The `Config` of the baseline with `overrides`. Raises ConfigError naming every problem.

    elsewhere: for another machine, which may have a device that this one lacks.
    """
    from hydra.errors import HydraException
    from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

    texts, sources, problems = checked([*machine_defaults(overrides), *overrides])
    values: Any = {}
    try:
        values = _with_one_zero(tree(CONF, texts))
    except MissingMandatoryValue as error:
        problems.append(f"{error.full_key}: must be given, as {error.full_key}=VALUE.")
    except (HydraException, OmegaConfBaseException) as error:
        problems.append(" ".join(str(error).split()))
    for group in (*STRUCTURAL, *TRAINED) if values else ():
        own = {"name": "", **_parameters(group, values[group]["name"])}
        values[group] |= {key: convert(values[group][key], type(value)) for key, value in own.items()}
    config = build(Config, values, problems=problems) if values else None
    for key, sentence in problems_of(config) if config else ():
        value = show(lookup(config, key))
        problems.append(f"{key} = {value} ({sources.get(key, _file_of(key))}): {sentence}")
    if config and config.engine.device == "cuda" and not elsewhere and not has_gpu():
        problems.append(f"engine.device = cuda ({sources.get('engine.device')}): no such device. Found: cpu.")
    if problems:
        raise ConfigError(problems)
    return typing.cast(Config, config)


def _with_one_zero(value: Any) -> Any:
    """The values with 0.0 for -0.0: they are equal, and so is what they name."""
    if isinstance(value, dict):
        return {key: _with_one_zero(item) for key, item in value.items()}
    return 0.0 if isinstance(value, float) and value == 0 else value


def machine_defaults(overrides: Sequence[Override]) -> list[Override]:
    """The size and precision this machine gets where none is chosen: nano in fp32 on CPUs, small in bf16
    on a GPU.
    """
    device = next(
        (o.text.partition("=")[2] for o in overrides if o.text.startswith("engine.device=")), "auto"
    )
    gpu = device == "cuda" or (device == "auto" and has_gpu())
    chosen = {o.text.partition("=")[0] for o in overrides}
    wanted = {"size": "small" if gpu else "nano", "precision": "bf16" if gpu else "fp32"}
    return [Override(f"{key}={value}", "this machine") for key, value in wanted.items() if key not in chosen]


def lookup(config: Any, key: str) -> Any:
    """The value at a dotted key of nested dataclasses and dicts."""
    for part in key.split("."):
        if isinstance(config, Choice) and part in config.own:
            config = config.own
        config = config[part] if isinstance(config, dict) else getattr(config, part)
    return config


def with_arch(overrides: Sequence[Override]) -> list[Override]:
    """`arch=NAME` as the overrides that conf/arch/NAME.yaml lists; explicit ones outdo them, wherever they
    stand.

    An explicit option of a group (norm=layernorm) takes the place of the preset's option and of its
    parameters. A name that does not exist stays, to be refused.
    """
    known = {f"arch={name}" for name in groups()["arch"]}
    presets = [o for o in overrides if o.text in known]
    explicit = [o for o in overrides if o not in presets]
    if not presets:
        return explicit
    keys = {o.text.partition("=")[0] for o in explicit}
    name = presets[-1].text.partition("=")[2]
    return [
        Override(f"{key}={_written(value)}", f"conf/arch/{name}.yaml")
        for key, value in option("arch", name).items()
        if key not in keys and key.partition(".")[0] not in keys
    ] + explicit


def _written(value: Any) -> str:
    return f"[{','.join(map(show, value))}]" if isinstance(value, list) else show(value)


def checked(overrides: Sequence[Override]) -> tuple[list[str], dict[str, str], list[str]]:
    """Overrides as Hydra takes them, key -> source, and every problem; a refused override is left out."""
    problems: list[str] = []
    overrides = with_arch(overrides)
    secrets = [o for o in overrides if SECRET.search(o.text)]
    problems += [f"{o.text.partition('=')[0]} ({o.source}): {LOOKS_SECRET}" for o in secrets]
    safe = [o for o in overrides if o not in secrets]
    parsed = [(o, item) for o in safe if (item := _parse(o, problems)) is not None]
    chosen = {group: name for group, name in _defaults().items() if isinstance(name, str)}
    chosen |= {item.key_or_group: item.value() for _, item in parsed if isinstance(item.value(), str)}
    texts: dict[str, str] = {}
    sources = {}
    for override, item in parsed:
        key, value = item.key_or_group, item.value()
        sentence = _refusal(item, chosen)
        if sentence:
            written = override.text.partition("=")[2]
            stated = "" if item.is_delete() else f" = {written}"
            problems.append(
                f"{override.text if item.is_delete() else key}{stated} ({override.source}): {sentence}"
            )
            continue
        if key in groups() and key in COMPOSITE and isinstance(value, str):
            text = f"{key}=[{value}]"
        elif key in groups() and isinstance(value, int | float):
            key = f"{key}.value"
            text = f"{key}={value}"
        else:
            text = f"{key}={override.text.partition('=')[2]}"
        if key in groups():  # Hydra would apply a number that was chosen before this option after it
            texts.pop(f"{key}.value", None)
        texts[key], sources[key] = text, override.source
    return list(texts.values()), sources, problems


LOOKS_SECRET = (
    "looks like a secret and would be stored with the run. Nothing was written. Put it into the environment."
)
COMPOSITE = ("regularization", "stability")


def _parse(override: Override, problems: list[str]) -> Any:
    from hydra.errors import HydraException

    try:
        return parsed(override.text)
    except HydraException:
        key = override.text.partition("=")[0]
        fix = f"Write {key}=VALUE" if "=" not in override.text else f"Quote the value: '{key}=\"...\"'"
        problems.append(f"{override.text} ({override.source}): not an override. {fix}.")
    except (ValueError, RecursionError):
        key, _, value = override.text.partition("=")
        problems.append(
            f"{key} = {value} ({override.source}): a number of too many digits, or brackets in too many "
            "brackets. Write a shorter value."
        )
    return None


def _refusal(item: Any, chosen: dict[str, str]) -> str:
    """Why one parsed override can't be taken, with the fix; empty when it can."""
    key, value = item.key_or_group, item.value()
    own = [f"{g}.{k}" for g in (*STRUCTURAL, *TRAINED) for k in _parameters(g, chosen[g])]
    known = [*leaves(), *groups(), *own]
    if CALLABLE.search(key) or (isinstance(value, dict) and CALLABLE.search(str(sorted(value)))):
        return "this key could call arbitrary code and is not allowed. Choose by name."
    if key.partition(".")[0].partition("/")[0] == "hydra":
        return "this part of Hydra cannot be changed here."
    if item.is_add() or item.is_force_add():
        return f'"+" cannot add keys.{closest(key, known) or " The schema is closed; see lab axes."}'
    if item.is_delete():
        return '"~" cannot remove keys. Choose another option instead, such as none.'
    if item.package is not None:
        return f'"@" cannot move a group. Write {key}={show(value)}.'
    if item.is_sweep_override():
        return "a comma or range makes a sweep. Use lab train -m, or quote the value."
    if "${" in str(value):
        return "a reference is resolved and stored with the run; write the value itself."
    if key in groups():
        return _option_refusal(key, value)
    group, _, parameter = key.partition(".")
    if group in STRUCTURAL and parameter and parameter != "name":
        return _parameter_refusal(group, parameter, value, chosen)
    if group in TRAINED and parameter and (sentence := _unread(group, parameter, chosen[group])):
        return sentence
    if group in TRAINED and parameter in _parameters(group, chosen[group]):
        return _parameter_refusal(group, parameter, value, chosen)
    if parameter == "name" and group in groups():
        return f"is chosen by its option. Write {group}={show(value)}; known: {', '.join(groups()[group])}."
    if group == "data" and (sentence := _unread_of_text(parameter, chosen["data"])):
        return sentence
    if key not in leaves():
        return f"unknown key.{_near(key, known)}"
    try:
        convert(value, leaves()[key])
    except TypeError as error:
        return f"{error}"
    return ""


def _near(key: str, known: Sequence[str]) -> str:
    """What may have been meant by a key that there isn't."""
    group, _, parameter = key.partition(".")
    own = [leaf.removeprefix(f"{group}.") for leaf in leaves() if leaf.startswith(f"{group}.")]
    has = f" {group} has {', '.join(own)}." if own else ""
    if parameter in groups().get(group, ()):
        return f" {parameter} is an option: write {group}={parameter}.{has}"
    near = closest(key, [name for name in known if not own or name not in groups()])
    return f"{near}{has}" or " See lab train --cfg job for all keys."


OF_FILES = ("path", "validation_path", "validation_fraction", "text_field", "skip_null")
OF_STORIES = ("stories", "validation_stories", "seed")


def _unread_of_text(parameter: str, data: str) -> str:
    """Why a key of the text can't be given to this one; empty where it can."""
    if parameter.startswith("grammar.") and data != "stories":
        return f"is a knob of generated stories. data={data} has none; drop it or use data=stories."
    if parameter in OF_STORIES and data != "stories":
        return f"data={data} does not read it; generated stories do. Leave it out, or choose data=stories."
    if parameter in OF_FILES and data == "stories":
        return "data=stories does not read it, for it is generated. Choose data=text, or leave it out."
    return ""


def _option_refusal(group: str, value: Any) -> str:
    options, numeric = groups()[group], f"{group}.value" in leaves()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "" if numeric else f"choose one of {', '.join(options)}."
    names = value if group in COMPOSITE and isinstance(value, list) else [value]
    for name in names:
        if names.count(name) > 1:
            return f"{show(name)} stands there twice. Write it once."
        if name not in options:
            number = ", or a number" if numeric else ""
            near, known = closest(str(name), options), ", ".join(options)
            return f'unknown {group} "{show(name)}".{near} Known: {known}{number}.'
    return ""


def _parameter_refusal(group: str, parameter: str, value: Any, chosen: dict[str, str]) -> str:
    known = _parameters(group, chosen[group])
    if parameter not in known:
        has = f"It has {', '.join(known)}." if known else "It has none."
        return f"{group}={chosen[group]} has no parameter {parameter}.{closest(parameter, known)} {has}"
    try:
        converted = convert(value, type(known[parameter]))
    except TypeError as error:
        return f"{error}"
    if isinstance(converted, float) and not 0 <= converted < float("inf"):
        return "must be a finite number, 0 or more."
    return ""


def _unread(group: str, parameter: str, name: str) -> str:
    """Why a key that other options of an axis read can't be given to this one; empty where it can."""
    readers = [other for other in groups()[group] if parameter in option(group, other)]
    if name in readers or name not in groups()[group] or not readers:
        return ""
    read = ", ".join(key for key in option(group, name) if key != "name")
    others = " or ".join(f"{group}={other}" for other in readers)
    return f"{group}={name} does not read it; it reads {read}. Leave it out, or choose {others}."


def _parameters(group: str, name: str) -> dict[str, Any]:
    """What an option alone is told, as its YAML states it; nothing where there is no such option."""
    if name not in groups()[group]:
        return {}
    shared = {key.partition(".")[2] for key in leaves() if key.startswith(f"{group}.")} | {"name"}
    return {key: value for key, value in option(group, name).items() if key not in shared}


def _file_of(key: str) -> str:
    group = key.partition(".")[0]
    return f"conf/{group}/" if group in groups() else "conf/config.yaml"


MOST_POINTS = 10_000  # of a multirun: each takes some milliseconds to compose


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """The product of all sweeps (`a=1,2`, `range(...)`, `choice(...)`, `glob(...)`) in Hydra's override
    grammar.
    """
    from hydra.core.override_parser.types import Glob

    problems: list[str] = []
    choices = []
    for text in overrides:
        item = _parse(Override(text), problems)
        if item is None or not item.is_sweep_override():
            choices.append([text])
            continue
        sweep = item.value()
        options = list(groups().get(item.key_or_group, ()))
        values = sweep.filter(options) if isinstance(sweep, Glob) else list(item.sweep_string_iterator())
        if not values:
            problems.append(f"{text} (command line): the search space is empty.")
        choices.append([f"{item.key_or_group}={value}" for value in values])
    count = math.prod(map(len, choices))
    if count > MOST_POINTS:
        problems.append(
            f"-m: {count:,} runs, and at most {MOST_POINTS:,} are planned at once. Name fewer values."
        )
    if problems:
        raise ConfigError(problems)
    return [list(point) for point in itertools.product(*choices)]


class Variant(NamedTuple):
    """One option of one design axis; `what` is the comment its YAML opens with: name, meaning, source."""

    group: str
    name: str
    what: str
    default: bool


AXES = (
    "norm_placement",
    "norm",
    "activation",
    "ffn_ratio",
    "heads",
    "aspect",
    "vocab",
    "regularization",
    "stability",
    "position",
    "block",
    "ffn",
    "init",
    "embedding",
    "attention",
    "pattern",
    "bias",
    "optimizer",
    "schedule",
)


def variants() -> list[Variant]:
    """Every option of every design axis, in the order of the lecture, and the presets of several last."""
    found = []
    for group in (*AXES, "arch"):
        default = _defaults().get(group, "none")
        for name in groups()[group]:
            first = (CONF / group / f"{name}.yaml").read_text().splitlines()[0]
            what = first.removeprefix("#").strip() if first.startswith("#") else ""
            found.append(Variant(group, name, what, name == default or default == [name]))
    return found
