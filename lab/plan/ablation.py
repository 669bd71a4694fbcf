"""One question of the lecture as a file of `ablations/`: its schema, what is wrong with it, and its arms
composed.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lab.config.compose import ROOT, Override, compose
from lab.config.schema import Config, RunConfig
from lab.config.strict import ConfigError, build, closest, collected, neutral, read
from lab.store import claim as claim_forms
from lab.store.claim import Claim

ABLATIONS = ROOT / "ablations"
MOST_HORIZONS = 5
OF_TEXT = ("tokens", "bytes")  # that training reads
HOLDS = (
    "none",
    "body_parameters",
    "active_parameters",
    "parameters",
    "flops_per_token",
    *OF_TEXT,
)  # see lab/plan/matching.py
SOLVES = ("none", "d_ff", "width", "depth")
EXAMPLE = "CONTRIBUTING.md has a whole file of ablations/ as an example."
X_VALUES: dict[str, Callable[[RunConfig], float]] = {
    "ffn_ratio": lambda run: run.shape.d_ff / run.shape.d_model,
    "heads": lambda run: run.shape.num_heads,
    "head_size": lambda run: run.shape.head_dim,
    "aspect": lambda run: run.shape.d_model / run.shape.num_layers,
    "vocab": lambda run: run.shape.vocab_size,
}


@dataclass(frozen=True)
class AblationArm:
    """One variant: its overrides and how it is called; `{x}` in the label is the value that results."""

    family: str
    label: str
    overrides: list[str]


@dataclass(frozen=True)
class Match:
    """What every arm has as much of as the baseline, and which free dimension is solved for it
    (lab/plan/matching.py).

    tolerance: the relative mismatch from which an arm is refused.
    """

    hold: str
    solve: str
    tolerance: float = neutral(0.01)


@dataclass(frozen=True)
class Axis:
    """The axis of the comparison; `numeric` draws results against the number that results."""

    key: str
    label: str
    numeric: bool


@dataclass(frozen=True)
class Search:
    """A search of learning rates (lab/sweep/search.py): an odd number of `points`, `decades` apart, on
    `seeds` that judge nothing.

    Of an ablation with horizons also the number of the `horizon` whose losses choose, and whether rates that
    fall behind before it are left there (`halving`); claims on ranges of rates need all of them.
    """

    points: int = neutral(5)
    decades: float = neutral(0.5)
    seeds: list[int] = neutral([100, 101])
    horizon: int = neutral(2)
    halving: bool = neutral(True)

    @classmethod
    def standard(cls) -> "Search":
        return read(cls, {})

    def problems(self, *, judging: int) -> list[str]:
        """Everything wrong with it in an ablation whose seeds 0 ... judging - 1 judge claims."""
        found = []
        if self.points < 3 or self.points % 2 == 0:
            found.append(
                f"search.points = {self.points}: must be odd and 3 or more, so that the common rate "
                "is in the middle."
            )
        if not 0 < self.decades <= 2:
            found.append(
                f"search.decades = {self.decades:g}: must be above 0 and at most 2; half decades are 0.5."
            )
        if len(set(self.seeds)) < max(1, len(self.seeds)) or any(seed < 0 for seed in self.seeds):
            found.append(f"search.seeds = {self.seeds}: must be different whole numbers of 0 or more.")
        if judges := sorted(seed for seed in self.seeds if 0 <= seed < judging):
            found.append(
                f"search.seeds = {judges}: are among those that judge, 0 to {judging - 1}. Use 100 and more."
            )
        return found


@dataclass(frozen=True)
class Ablation:
    """One file of `ablations/`. `looks` are the numbers of seeds at which claims are judged; none: once,
    at `seeds`.

    search: how --search looks for learning rates, None for the standard one; where a file has it, its
    claims rest on a search. side_by_side: pairs whose loss and gradient norm one figure lays over each
    other, a row a pair; a family stands for its best arm. core_minutes: what the whole of it takes at most
    at nano on one core of a CPU, all looks and extensions of the grid. horizons: how many there are, each
    twice the one before (lab/plan/horizons.py); None trains every run by itself, to the budget.
    """

    title: str
    question: str
    source: str
    axis: Axis
    match: Match
    seeds: int
    baseline: str
    arms: dict[str, AblationArm]
    common: list[str] = neutral([])
    optional_arms: dict[str, AblationArm] = neutral({})
    notes: list[str] = neutral([])
    claims: list[Claim] = neutral([])
    looks: list[int] = neutral([])
    search: Search | None = neutral(None)
    side_by_side: list[list[str]] = neutral([])
    core_minutes: float | None = neutral(None)
    horizons: int | None = neutral(None)


def names() -> list[str]:
    return sorted(p.stem for p in ABLATIONS.glob("*.yaml"))


def load(name: str) -> Ablation:
    """The ablation file of that name. Raises ConfigError."""
    if name not in names():
        raise ConfigError(f"{name}: no such ablation.{closest(name, names())} Known: {', '.join(names())}.")
    from omegaconf import OmegaConf
    from yaml import YAMLError

    path = ABLATIONS / f"{name}.yaml"
    problems: list[str] = []
    try:
        values = OmegaConf.to_container(OmegaConf.load(path))
    except (YAMLError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path.relative_to(ROOT)}: not valid YAML. {' '.join(str(error).split())}"
        ) from error
    where = f"{path.relative_to(ROOT)}: "
    ablation: Ablation | None = build(Ablation, values, where=where, problems=problems)
    problems += [
        f"{where}arm {arm}: YAML reads this name as no text. Put it in quotes." for arm in _unquoted(values)
    ]
    if ablation is None:
        problems += [f"{where}{problem}" for problem in _of_other_claims(values)]
    if problems or ablation is None:
        raise ConfigError([*problems, EXAMPLE])
    found = _of_claims(ablation, ablation.claims)
    found += claim_forms.look_problems(ablation.looks, seeds=ablation.seeds)
    found += ablation.search.problems(judging=ablation.seeds) if ablation.search else []
    found += _horizon_problems(ablation)
    found += _pair_problems(ablation)
    for key, value, known in (
        ("match.hold", ablation.match.hold, HOLDS),
        ("match.solve", ablation.match.solve, SOLVES),
        ("axis.key", ablation.axis.key if ablation.axis.numeric else None, (None, *X_VALUES)),
    ):
        if value not in known:
            found.append(f"{key} = {value}: unknown. Known: {', '.join(filter(None, known))}.")
    if ablation.match.hold in OF_TEXT and ablation.match.solve in set(SOLVES) - {"none"}:
        found.append(
            f"match.solve = {ablation.match.solve}: no shape changes the {ablation.match.hold} that training "
            "reads. Write none."
        )
    if not 0 <= ablation.match.tolerance < 1:
        found.append(f"match.tolerance = {ablation.match.tolerance:g}: must be at least 0 and below 1.")
    if ablation.baseline not in ablation.arms:
        found.append(
            f"baseline = {ablation.baseline}: is not one of the arms."
            f"{closest(ablation.baseline, ablation.arms)} Known: {', '.join(ablation.arms)}."
        )
    if found:
        raise ConfigError([f"{path.relative_to(ROOT)}: {problem}" for problem in found])
    return ablation


def _of_claims(ablation: Ablation, claims: Sequence[Claim | None]) -> list[str]:
    arms = chosen_arms(ablation, list(ablation.optional_arms))
    families = [arm.family for arm in arms.values()]
    return claim_forms.problems_of(claims, arms=list(arms), families=families)


def _of_other_claims(values: Any) -> list[str]:
    """What is wrong with the well-formed claims of a file some of whose claims are malformed."""
    listed = values.get("claims") if isinstance(values, dict) else None
    if not isinstance(listed, list):
        return []
    without = build(Ablation, values | {"claims": []}, problems=[])
    if without is None:
        return []
    return _of_claims(without, [build(Claim, claim, problems=[]) for claim in listed])


def _unquoted(values: Any) -> list[Any]:
    """Names of arms that YAML takes for numbers or truth values."""
    groups = [values.get(key) for key in ("arms", "optional_arms")] if isinstance(values, dict) else []
    return [arm for group in groups if isinstance(group, dict) for arm in group if not isinstance(arm, str)]


def _horizon_problems(ablation: Ablation) -> list[str]:
    """Everything wrong with the horizons; the search chooses at one of them."""
    count, search = ablation.horizons, ablation.search
    if count is None:
        return []
    if not 2 <= count <= MOST_HORIZONS:
        return [f"horizons = {count}: must be 2 to {MOST_HORIZONS}."]
    if search and not 0 <= search.horizon < count:
        return [f"search.horizon = {search.horizon}: must be 0 to {count - 1}, one of the horizons."]
    return []


def _pair_problems(ablation: Ablation) -> list[str]:
    """Everything wrong with the pairs that are drawn side by side; optional arms may be absent, so none is
    named.
    """
    known = {*ablation.arms, *(arm.family for arm in ablation.arms.values())}
    found = []
    for number, pair in enumerate(ablation.side_by_side):
        where = f"side_by_side[{number}]"
        if len(set(pair)) != 2 or len(pair) != 2:
            found.append(f"{where} = {pair}: must be two different arms or families. Write [NAME, NAME].")
        found += [
            f"{where} = {name}: is no arm or family of the default arms.{closest(name, sorted(known))}"
            for name in pair
            if name not in known
        ]
    return found


def chosen_arms(ablation: Ablation, extra: Sequence[str]) -> dict[str, AblationArm]:
    """The default arms and those optional ones that were asked for. Raises ConfigError."""
    problems = [
        f"--with {name}: no such optional arm.{closest(name, ablation.optional_arms)} "
        f"Known: {', '.join(ablation.optional_arms) or 'none'}."
        for name in extra
        if name not in ablation.optional_arms
    ]
    arms = ablation.arms | {
        name: ablation.optional_arms[name] for name in extra if name in ablation.optional_arms
    }
    for name, arm in arms.items():
        if re.search(r"[{}]", arm.label.replace("{x}", "")):
            problems.append(f'arm {name}: label = {arm.label}: only "{{x}}" may stand in braces.')
    if problems:
        raise ConfigError(problems)
    return arms


def compose_arms(
    name: str,
    ablation: Ablation,
    arms: dict[str, AblationArm],
    overrides: Sequence[str],
    *,
    elsewhere: bool = False,
) -> dict[str, Config]:
    """One `Config` an arm. Raises ConfigError with the problems of all arms, each once."""
    configs, problems = {}, []
    fixed = {text.partition("=")[0].partition(".")[0]: arm for arm, a in arms.items() for text in a.overrides}
    for text in overrides:
        if text.partition("=")[0] == "seed":
            problems.append(
                f"{text} (command line): an ablation pairs its own seeds. Use --seeds N for 0 ... N-1."
            )
        if (group := text.partition("=")[0].partition(".")[0]) in fixed:
            problems.append(
                f"{text} (command line): arm {fixed[group]} of ablation {name} sets {group}; choose "
                "another key."
            )
    for arm_name, arm in arms.items():
        source = f"ablations/{name}.yaml"
        layered = [Override(text, source) for text in ablation.common]
        layered += [Override(text, f"{source}, arm {arm_name}") for text in arm.overrides]
        layered += [Override(text) for text in overrides]
        with collected(problems):
            configs[arm_name] = compose(layered, elsewhere=elsewhere)
    if problems:
        raise ConfigError(problems)
    return configs
