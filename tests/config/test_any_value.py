"""Any leaf of the composed configuration with any value: refused in words that name a leaf, or a sound run.

python -m tests.config.test_any_value 3     every leaf, every kind, so many values of each; prints counts
"""

import dataclasses
import random
import re
import sys
import typing
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.config.compose import Override, compose, groups, leaves, lookup, option
from lab.config.schema import STRUCTURAL, TRAINED, Config
from lab.config.strict import ConfigError
from lab.data import text_files
from lab.plan import budget

CORPUS = budget.TrainingText("f", bytes_per_token=4.0, train_tokens=10**6, tokenizer_hash="t")

CONTROLS = st.characters(categories=["Cc"], exclude_characters="\0")
VALUES: dict[str, st.SearchStrategy[str]] = {
    "another type": st.sampled_from(["abc", "true", "1.5", "'7'", "x:y"]),
    "negative": st.one_of(st.integers(-(10**6), -1).map(str), st.floats(-1e6, -1e-6).map(repr)),
    "zero": st.sampled_from(["0", "0.0", "-0.0"]),
    "huge": st.integers(19, 300).map(lambda digits: f"1e{digits}"),
    "many digits": st.integers(300, 4000).map(lambda digits: "9" * digits),
    "NaN": st.sampled_from(["nan", "NaN"]),
    "infinite": st.sampled_from(["inf", "-inf", "1e999"]),
    "null": st.just("null"),
    "list": st.sampled_from(["[1]", "[1,[2]]", "[a,null]", "[true]"]),
    "map": st.sampled_from(["{a:1}", "{name:x}", "{a:{b:1}}"]),
    "empty": st.sampled_from(["", "''", "' '"]),
    "control characters": st.text(CONTROLS, min_size=1, max_size=5).map(lambda text: f"'a{text}b'"),
    "10 KB": st.sampled_from(["a", "a b ", "é"]).map(lambda part: f"'{part * (10_000 // len(part))}'"),
    "5,000 digits": st.sampled_from("123456789").map(lambda digit: digit * 5000),
}
# Where nothing, a share or a count of 0 is what one may want.
ZERO = {
    *("seed", "data.seed", "data.grammar.zipf_exponent", "data.grammar.distance", "data.grammar.noise"),
    *("regularization.dropout", "regularization.weight_decay", "regularization.label_smoothing"),
    *("stability.z_loss", "schedule.warmup_fraction", "schedule.final_fraction", "norm.eps", "ffn.balance"),
    *("optimizer.beta1", "optimizer.beta2", "optimizer.momentum", "evaluation.choices"),
    *("evaluation.samples", "engine.checkpoint_seconds", "data.stories", "data.validation_stories"),
}
TEXT = {"data.path", "data.validation_path", "data.text_field", "tracker.project"}  # any words
NULL = {key for key, kind in leaves().items() if type(None) in typing.get_args(kind)}


def settable() -> list[tuple[str, str]]:
    """(the option that reads it, or nothing; key) of every leaf of the composed configuration."""
    found = [("data=text" if key in text_keys() else "", key) for key in leaves()]
    for group in (*STRUCTURAL, *TRAINED):
        shared = {key.partition(".")[2] for key in leaves() if key.startswith(f"{group}.")}
        for name in groups()[group]:
            for parameter in option(group, name).keys() - shared - {"name"}:
                found.append((f"{group}={name}", f"{group}.{parameter}"))
    return sorted(found)


def text_keys() -> set[str]:
    """The leaves of `data` that generated stories do not read."""
    own = {"path", "validation_path", "validation_fraction", "text_field", "skip_null"}
    return {f"data.{key}" for key in own}


def outcome(chosen: str, key: str, kind: str, value: str) -> str:
    """ "refused", or "accepted" with sense. Raises AssertionError for anything else."""
    overrides = [Override("size=nano"), *([Override(chosen)] if chosen else []), Override(f"{key}={value}")]
    try:
        config = compose(overrides)
        if config.data.path is not None or config.data.validation_path is not None:
            text_files.find(config.data)
        budget.resolve(config, CORPUS)
    except ConfigError as error:
        told = str(error)
        assert all(problem.isprintable() and len(problem) < 2000 for problem in error.problems), told
        assert all(problem.rstrip().endswith((".", "?")) for problem in error.problems), told
        leaf = re.search(r"[a-z_]+(\.[a-z_]+)+", told) or key in told
        assert leaf, f"{key}={value[:40]} is refused without a name: {told}"
        return "refused"
    assert sensible(key, kind, lookup(config, key), config), f"{key}={value[:40]} is accepted"
    return "accepted"


def sensible(key: str, kind: str, value: object, config: Config) -> bool:
    """Whether what was accepted is a value one may want there, by what the key means."""
    if kind == "null":
        return key in NULL and value is None
    if kind == "zero":
        return key in ZERO and value == 0
    if kind == "another type":
        return isinstance(value, bool) or key in TEXT or isinstance(value, float)
    if kind == "list":
        return key == "evaluation.lengths" and value == [1]
    return False


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(settable()), st.sampled_from(sorted(VALUES)), st.data())
def test_any_value_of_any_leaf_is_refused_by_name_or_has_sense(place, kind, data):
    outcome(*place, kind, data.draw(VALUES[kind]))


@pytest.mark.parametrize("kind", ["zero", "huge", "5,000 digits"])
@pytest.mark.parametrize("key", ["ffn.top_k", "ffn.experts", "position.max_distance", "optimizer.lr"])
def test_what_was_once_a_traceback_or_without_sense_is_refused(key, kind):
    chosen = {"ffn": "ffn=moe", "position": "position=relative"}.get(key.partition(".")[0], "")
    value = {"zero": "0", "huge": "1e30", "5,000 digits": "9" * 5000}[kind]
    assert outcome(chosen, key, kind, value) == "refused"


def test_every_leaf_is_tried():
    keys = {key for _, key in settable()}
    assert set(leaves()) <= keys and {"norm.eps", "position.theta", "ffn.top_k", "optimizer.eps"} <= keys
    assert {f.name for f in dataclasses.fields(Config)} >= {key.partition(".")[0] for key in keys}


def main(each: int) -> int:
    """Every leaf with every kind; prints what became of them."""
    found = Counter[str]()
    for chosen, key in settable():
        for kind, values in VALUES.items():
            for value in {values.example() for _ in range(each)}:
                try:
                    found[outcome(chosen, key, kind, value)] += 1
                except AssertionError as error:
                    found["wrongly"] += 1
                    print(f"{chosen} {key} {kind}: {str(error)[:300]}")
                except Exception as error:
                    found["traceback"] += 1
                    print(f"{chosen} {key} {kind} {value[:40]!r}: {type(error).__name__}: {str(error)[:200]}")
    print(f"{len(settable())} leaves, {sum(found.values())} tried:", dict(found))
    return found["wrongly"] + found["traceback"]


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    random.seed(0)
    raise SystemExit(bool(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)))
