"""What may a claim ask of the evidence? The forms of its predicate.

`PREDICATES` is the closed set of them, in the words of YAML; lab/verdict/predicates.py has the test that each
stands for.

A margin is a number, a fraction where the metric is relative, or {seed_sds: 2}: that many standard
deviations of the baseline over seeds, as `lab noise` measured them before.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from lab.config.strict import absent, build, closest, plain, show
from lab.store.metric import Metric

DIRECTIONS = ("rises", "falls")
TRENDS = ("page", "kendall")
RANGE_MEASURES = ("max_stable", "width")


class _Name(str):
    """A name in a predicate."""

    @classmethod
    def from_plain(cls, value: Any, *, where: str, problems: list[str]) -> _Name | None:
        if isinstance(value, str):
            return cls(value)
        problems.append(f"{where} = {show(value)}: must be a name.")
        return None

    def to_plain(self) -> str:
        return str(self)


class ArmName(_Name):
    """The name of an arm."""


class FamilyName(_Name):
    """The name of a family of arms."""


@dataclass(frozen=True)
class Margin:
    """A size of difference: `number`, in the unit of the metric, or so many standard deviations over
    seeds.
    """

    number: float | None = None
    seed_sds: float | None = None

    @classmethod
    def from_plain(cls, value: Any, *, where: str, problems: list[str]) -> Margin | None:
        if is_number(value):
            return cls(number=value)
        if isinstance(value, dict) and value.keys() == {"seed_sds"} and is_number(sds := value["seed_sds"]):
            if sds > 0:
                return cls(seed_sds=sds)
        problems.append(f"{where} = {value}: must be a number or {{seed_sds: 2}}.")
        return None

    def to_plain(self) -> Any:
        return self.number if self.seed_sds is None else {"seed_sds": self.seed_sds}

    @property
    def known(self) -> float:
        """The number of a margin that has one."""
        assert self.number is not None
        return self.number


@dataclass(frozen=True)
class Group:
    """Some arms, by their names or by their family."""

    arms: tuple[ArmName, ...] = ()
    family: FamilyName | None = None
    forms: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_plain(cls, value: Any, *, where: str, problems: list[str]) -> Group | None:
        given = {"": value} if isinstance(value, str) else value
        if isinstance(given, dict) and len(given) == 1:
            [(form, named)] = given.items()
            listed = named if form == "arms" else [named]
            if form in cls.forms and listed and is_names(listed):
                if form == "family":
                    return cls(family=FamilyName(named))
                return cls(arms=tuple(map(ArmName, listed)))
        shapes = {
            "": "an arm",
            "arm": "{arm: NAME}",
            "arms": "{arms: [NAME, ...]}",
            "family": "{family: NAME}",
        }
        *first, last = [shapes[form] for form in cls.forms]
        problems.append(f"{where} = {value}: must be {', '.join(first)} or {last}.")
        return None

    def to_plain(self) -> Any:
        if self.family is not None:
            return {"family": str(self.family)}
        named = [str(name) for name in self.arms]
        form = next(form for form in self.forms if form == "arms" or (form != "family" and len(named) == 1))
        return named[0] if form == "" else {form: named if form == "arms" else named[0]}


class Side(Group):
    """One arm, or several whose mean within a seed is taken."""

    forms = ("", "arms", "family")


class Rivals(Group):
    """One arm, or a family, each of which is compared with."""

    forms = ("arm", "family")


class Several(Group):
    """Arms in the order they are listed, or those of a family by their x."""

    forms = ("arms", "family")


@dataclass(frozen=True)
class Pair:
    """What `arm` loses against `against`."""

    arm: ArmName
    against: ArmName

    @classmethod
    def from_plain(cls, value: Any, *, where: str, problems: list[str]) -> Pair | None:
        if isinstance(value, dict) and value.keys() == {"arm", "against"} and is_names([*value.values()]):
            return cls(ArmName(value["arm"]), ArmName(value["against"]))
        problems.append(f"{where} = {value}: must be {{arm: NAME, against: NAME}}.")
        return None

    def to_plain(self) -> dict[str, str]:
        return {"arm": str(self.arm), "against": str(self.against)}


@dataclass(frozen=True)
class Interval:
    """A range of x, both ends inside it."""

    low: float
    high: float

    @classmethod
    def from_plain(cls, value: Any, *, where: str, problems: list[str]) -> Interval | None:
        if isinstance(value, list | tuple) and len(value) == 2 and all(map(is_number, value)):
            return cls(*value)
        problems.append(f"{where} = {value}: must be [lowest x, highest x].")
        return None

    def to_plain(self) -> list[float]:
        return [self.low, self.high]

    def holds(self, x: float) -> bool:
        return self.low <= x <= self.high


@dataclass(frozen=True)
class Superior:
    """`better` beats `worse`, by the margin or more in the mean."""

    better: Side
    worse: Side
    margin: Margin


@dataclass(frozen=True)
class Equivalent:
    """Any two of some arms differ by less than the margin."""

    among: Several
    margin: Margin


@dataclass(frozen=True)
class NonInferior:
    """`arm` is no more than the margin worse than another, or than all others of a family."""

    arm: ArmName
    against: Rivals
    margin: Margin


@dataclass(frozen=True)
class Basin:
    """Arms with an x inside a range are within the margin of the best, and some arm outside is worse."""

    family: FamilyName
    inside: Interval
    margin: Margin


@dataclass(frozen=True)
class Trend:
    """The metric rises, or falls, along some arms, and the ends differ by the margin or more."""

    along: Several
    direction: str
    margin: Margin
    test: str = absent("page")


@dataclass(frozen=True)
class DifferenceOfDifferences:
    """What one pair of arms differs by is more than what another pair does."""

    larger: Pair
    smaller: Pair
    margin: Margin


@dataclass(frozen=True)
class LearningRateRange:
    """In every tuning seed `wider` stands learning rates at least `half_decades` further than `narrower`.

    tolerance: how far above the best loss of its seed a stable rate may end, as a fraction.
    """

    wider: ArmName
    narrower: ArmName
    measure: str
    tolerance: float
    half_decades: float = absent(1)


@dataclass(frozen=True)
class BelowLine:
    """An arm is better than a reference line of the plan, such as a table of n-grams."""

    arm: ArmName
    line: str


@dataclass(frozen=True)
class Bounded:
    """An arm's mean lies below, or above, a number."""

    arm: ArmName
    below: float | None = absent(None)
    above: float | None = absent(None)


@dataclass(frozen=True)
class Exact:
    """The checks of results/exact.jsonl on a claim hold."""

    claim: str


Part = (
    Superior
    | Equivalent
    | NonInferior
    | Basin
    | Trend
    | DifferenceOfDifferences
    | LearningRateRange
    | BelowLine
    | Bounded
    | Exact
)
PREDICATES: dict[str, type[Part]] = {
    "superior": Superior,
    "equivalent": Equivalent,
    "non_inferior": NonInferior,
    "basin": Basin,
    "trend": Trend,
    "did": DifferenceOfDifferences,
    "lr_range": LearningRateRange,
    "below_line": BelowLine,
    "bounded": Bounded,
    "exact": Exact,
}


@dataclass(frozen=True)
class Predicate:
    """What a claim asks: all of its parts must hold."""

    parts: tuple[Part, ...]

    @classmethod
    def from_plain(cls, value: Any, *, where: str, problems: list[str]) -> Predicate | None:
        listed = [value]
        if isinstance(value, dict) and value.keys() == {"all"}:
            listed = value["all"] if isinstance(value["all"], list) else []
        well_formed = all(
            isinstance(part, dict) and part and all(isinstance(asked, dict) for asked in part.values())
            for part in listed
        )
        if not well_formed or not listed:
            form = "{NAME: {...}} or {all: [{NAME: {...}}, ...]}"
            problems.append(f"{where} = {value}: must be {form}.")
            return None
        named = [pair for part in listed for pair in part.items()]
        before = len(problems)
        parts = [_part(str(name), asked, f"{where}.{name}", problems) for name, asked in named]
        return cls(tuple(part for part in parts if part)) if len(problems) == before else None

    def to_plain(self) -> dict[str, Any]:
        written = [{name_of(part): plain(part)} for part in self.parts]
        return written[0] if len(written) == 1 else {"all": written}

    def arms(self) -> set[str]:
        """The arms that it names."""
        return set().union(*map(arms_of, self.parts))

    def families(self) -> set[str]:
        """The families of arms that it names."""
        return set().union(*map(families_of, self.parts))


def name_of(part: Part) -> str:
    """What YAML calls a part of a predicate."""
    return next(name for name, form in PREDICATES.items() if isinstance(part, form))


def margin_of(part: Part) -> Margin | None:
    """The margin of a part; None where its form has none."""
    return getattr(part, "margin", None)


def arms_of(part: Part) -> set[str]:
    """The arms that a part names."""
    found: set[str] = set()
    for value in _values(part):
        if isinstance(value, ArmName):
            found.add(value)
        elif isinstance(value, Group):
            found |= set(value.arms)
        elif isinstance(value, Pair):
            found |= {value.arm, value.against}
    return found


def families_of(part: Part) -> set[str]:
    """The families of arms that a part names."""
    named = [value.family if isinstance(value, Group) else value for value in _values(part)]
    return {name for name in named if isinstance(name, FamilyName)}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


def _values(part: Part) -> Iterator[Any]:
    for f in dataclasses.fields(part):
        yield getattr(part, f.name)


def _part(name: str, asked: dict[Any, Any], where: str, problems: list[str]) -> Part | None:
    """One part of a predicate from its parameters; what is wrong with them is added to `problems`."""
    if name not in PREDICATES:
        problems.append(
            f"{where}: unknown predicate.{closest(name, PREDICATES)} Known: all, {', '.join(PREDICATES)}."
        )
        return None
    fields = dataclasses.fields(PREDICATES[name])
    wanted = sorted(f.name for f in fields if "omit" not in f.metadata)
    optional = sorted(f.name for f in fields if "omit" in f.metadata)
    if not set(wanted) <= asked.keys() <= {*wanted, *optional}:
        more = f" and may take {optional}" if optional else ""
        keys = sorted(map(str, asked))
        problems.append(f"{where}: has the keys {keys}. It takes exactly {wanted}{more}.")
        return None
    return build(PREDICATES[name], asked, where=f"{where}.", problems=problems)


def problems_of_part(part: Part, judged: Metric) -> Iterator[str]:
    """What of a part makes no sense for a metric."""
    margin = margin_of(part)
    if margin is not None and margin.number is not None:
        if not 0 < margin.number < (1 if judged.relative else math.inf):
            if judged.relative:
                yield f".margin = {margin.number}: must be a fraction between 0 and 1. Write 0.025 for 2.5 %."
            else:
                yield f".margin = {margin.number}: must be above 0, in the unit of {judged.name}."
    if isinstance(part, Basin) and part.inside.low > part.inside.high:
        yield f".inside = {part.inside.to_plain()}: must be [lowest x, highest x]."
    for name, choices in (("direction", DIRECTIONS), ("measure", RANGE_MEASURES), ("test", TRENDS)):
        if (value := getattr(part, name, choices[0])) not in choices:
            yield f".{name} = {value}: unknown. Known: {', '.join(choices)}."
    for f in dataclasses.fields(part):
        value = getattr(part, f.name)
        if isinstance(value, float) and not math.isfinite(value):
            yield f".{f.name} = {value}: must be a number."
    if isinstance(part, Bounded) and (part.below is None) == (part.above is None):
        yield ": needs one bound. Write below: NUMBER or above: NUMBER."
    if isinstance(part, BelowLine) and judged.name != "val/bpb":
        yield ": reference lines are in bits per byte. Set metric: val/bpb."
