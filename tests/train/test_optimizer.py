"""The contract of every optimizer: steps as the papers have them in float64, decay, and moments by name.

A new variant is found here by itself, and fails until its formula stands in FORMULAS.
"""

import inspect
import io
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lab.config.schema import Optimizer, RunConfig, Schedule
from lab.config.strict import ConfigError
from lab.data.shards import Shards
from lab.store.log_line import STEP
from lab.store.run_store import RunStore
from lab.sweep.local import execute
from lab.train import loop, optimizer, schedule
from lab.train.optimizer import optimizer_of
from lab.train.snapshot import pack, unpack
from tests.tiny_model import CONF, build, choice, loss_of, tokens
from tests.tiny_run import job, manifest, optimizer_named, tiny_run

AXES = {"optimizer": optimizer, "schedule": schedule}
SHARED = {
    "optimizer": {"name", "lr", "grad_clip"},
    "schedule": {"name", "warmup_fraction", "final_fraction"},
}
PAIRS = [(axis, name) for axis, module in AXES.items() for name in module.VARIANTS]
Array = np.ndarray
Steps = Iterator[tuple[Array, float]]  # (gradient, learning rate) of each step

every_variant = pytest.mark.parametrize(("axis", "name"), PAIRS)
every_optimizer = pytest.mark.parametrize("name", optimizer.VARIANTS)


@pytest.mark.parametrize("axis", AXES)
def test_yaml_stems_are_the_variants(axis: str) -> None:
    assert {path.stem for path in (CONF / axis).glob("*.yaml")} == set(AXES[axis].VARIANTS)


@every_variant
def test_yaml_gives_every_parameter_of_the_function_and_no_other(axis: str, name: str) -> None:
    given = choice(axis, name)
    own = {key: value for key, value in given.items() if key not in SHARED[axis]}
    signature = inspect.signature(AXES[axis].VARIANTS[name]).parameters.values()
    taken = {p.name: p for p in signature if p.kind is p.KEYWORD_ONLY}
    assert given["name"] == name and set(own) == set(taken)
    assert {key: type(value) for key, value in own.items()} == {k: p.annotation for k, p in taken.items()}
    assert all(p.default is p.empty for p in signature), "a default in code hides the YAML's value"


# --- decay ---


@every_optimizer
@pytest.mark.parametrize("changes", [{"position": "learned", "bias": "all"}, {"ffn": "moe"}], ids=str)
def test_every_parameter_stands_in_one_group_and_matrices_alone_decay(
    name: str, changes: dict[str, Any]
) -> None:
    run = tiny_run(norm="layernorm", optimizer=optimizer_named(name), **changes)
    model = build(run)
    made = optimizer_of(run, model)
    decays = [
        (id(weight), group["weight_decay"]) for group in made.param_groups for weight in group["params"]
    ]
    assert len(decays) == len(dict(decays)) == len(list(model.parameters()))
    tables = {"embedding.weight", "position.weight"}
    for parameter_name, weight in model.named_parameters():
        decays_by_rule = weight.ndim > 1 and parameter_name not in tables
        assert dict(decays)[id(weight)] == (0.1 if decays_by_rule else 0.0), parameter_name


# --- steps ---


class Small(nn.Module):
    """One parameter of each kind: a hidden matrix, a table of embeddings, the head, and gains."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        for name, shape in {"matrix": (6, 9), "table": (5, 9), "head": (5, 9), "gain": (9,)}.items():
            self.register_parameter(name, nn.Parameter(torch.randn(shape, generator=generator)))

    def roles(self) -> dict[str, str]:
        return {"matrix": "linear", "table": "embedding", "head": "head", "gain": "norm_gain"}


def adamw(w: Array, steps: Steps, decay: float, *, beta1: float, beta2: float, eps: float) -> Array:
    """Loshchilov & Hutter 2019, algorithm 2."""
    m = v = np.zeros_like(w)
    for t, (g, lr) in enumerate(steps, 1):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
        w = w - lr * (m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + decay * w)
    return w


def sgd(w: Array, steps: Steps, decay: float, *, momentum: float, nesterov: bool) -> Array:
    """Sutskever et al. 2013, (1) to (4), with the rate outside of the velocity as torch has it."""
    velocity = np.zeros_like(w)
    for g, lr in steps:
        g = g + decay * w
        velocity = momentum * velocity + g
        w = w - lr * (g + momentum * velocity if nesterov else velocity)
    return w


def lion(w: Array, steps: Steps, decay: float, *, beta1: float, beta2: float) -> Array:
    """Chen et al. 2023, algorithm 2."""
    m = np.zeros_like(w)
    for g, lr in steps:
        w = w - lr * (np.sign(beta1 * m + (1 - beta1) * g) + decay * w)
        m = beta2 * m + (1 - beta2) * g
    return w


def muon(
    w: Array, steps: Steps, decay: float, *, momentum: float, nesterov: bool, ns_steps: int, **rest: Any
):
    """Jordan et al. 2024, with the size of a step of Liu et al. 2025, section 2.2."""
    velocity = np.zeros_like(w)
    for g, lr in steps:
        velocity = momentum * velocity + g
        x = g + momentum * velocity if nesterov else velocity
        x = x / np.linalg.norm(x)
        for _ in range(ns_steps):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        w = w - lr * (0.2 * math.sqrt(max(w.shape)) * x + decay * w)
    return w


def adafactor(
    w: Array,
    steps: Steps,
    decay: float,
    *,
    decay_rate: float,
    clip_threshold: float,
    eps1: float,
    eps2: float,
) -> Array:
    """Shazeer & Stern 2018, algorithms 4 and 5, less their eps1 inside the squares; the rate caps rho."""
    row = column = whole = np.zeros(())
    for t, (g, lr) in enumerate(steps, 1):
        beta2, rms = 1 - t**-decay_rate, math.sqrt((w**2).mean())
        if w.ndim == 2:
            row = beta2 * row + (1 - beta2) * (g**2).sum(1)
            column = beta2 * column + (1 - beta2) * (g**2).sum(0)
            v = np.outer(row, column) / row.sum()
        else:
            v = whole = beta2 * whole + (1 - beta2) * g**2
        u = g / np.maximum(np.sqrt(v), eps1)
        u = u / max(1, math.sqrt((u**2).mean()) / clip_threshold)
        w = w - lr * decay * w - max(eps2, rms) * min(lr, 1 / math.sqrt(t)) * u
    return w


FORMULAS: dict[str, Callable[..., Array]] = {
    "adamw": adamw,
    "sgd": sgd,
    "lion": lion,
    "muon": muon,
    "adafactor": adafactor,
}
OTHERS = [
    ("sgd", {"nesterov": True}),
    ("sgd", {"momentum": 0.0}),
    ("muon", {"nesterov": False, "ns_steps": 3, "momentum": 0.5}),
    ("adafactor", {"clip_threshold": 1.2, "decay_rate": 0.5, "eps2": 3.0}),
    ("lion", {"beta1": 0.5, "beta2": 0.7}),
]


@pytest.mark.parametrize(("name", "own"), [*((name, {}) for name in optimizer.VARIANTS), *OTHERS], ids=str)
def test_four_steps_are_those_of_the_paper(name: str, own: dict[str, Any]) -> None:
    chosen, model = optimizer_named(name, **own), Small()
    made = optimizer_of(tiny_run(optimizer=chosen), model)  # type: ignore[arg-type]
    start = {n: p.detach().double().numpy().copy() for n, p in model.named_parameters()}
    generator = torch.Generator().manual_seed(1)
    rates, gradients = (0.1, 0.2, 0.05, 0.1), {n: [] for n in start}
    for size, rate in enumerate(rates, 1):  # growing, so that Adafactor clips
        for group in made.param_groups:
            group["lr"] = rate
        for n, p in model.named_parameters():
            p.grad = size * torch.randn(p.shape, generator=generator)
            gradients[n].append(p.grad.double().numpy())
        made.step()
    for n, p in model.named_parameters():
        decay = 0.1 if n in ("matrix", "head") else 0.0
        formula, keys = FORMULAS[name], chosen.own
        if name == "muon" and n != "matrix":
            formula, keys = adamw, {key: chosen.own[key] for key in ("beta1", "beta2", "eps")}
        expected = formula(start[n], zip(gradients[n], rates, strict=True), decay, **keys)
        error = np.linalg.norm(p.detach().numpy() - expected) / np.linalg.norm(expected - start[n])
        assert error < 1e-5, (n, error)


def test_a_step_of_muon_turns_the_momentum_into_a_nearly_orthogonal_matrix() -> None:
    """Jordan et al. 2024: five steps of Newton-Schulz leave singular values of about 0.7 to 1.2."""
    run = tiny_run(optimizer=optimizer_named("muon", lr=1.0))
    model = build(run)
    weight = model.get_parameter("blocks.0.attention.q.weight")
    before, made = weight.detach().clone(), optimizer_of(run, model)
    loss_of(model, tokens(8, 25)).backward()
    assert weight.grad is not None
    of_gradient = torch.linalg.svdvals(weight.grad)
    assert of_gradient.max() > 20 * of_gradient.min()
    for group in made.param_groups:
        group["weight_decay"] = 0.0
    made.step()
    sizes = torch.linalg.svdvals(before - weight.detach()) / (0.2 * math.sqrt(max(weight.shape)))
    assert 0.5 < sizes.min() and sizes.max() < 1.3


def test_muon_steps_as_that_of_torch_does_but_for_its_8_bits() -> None:
    model, theirs = Small(), Small()
    made = optimizer_of(tiny_run(optimizer=optimizer_named("muon", lr=0.1)), model)  # type: ignore[arg-type]
    own = optimizer_named("muon").own
    torch_muon = torch.optim.Muon(
        [theirs.get_parameter("matrix")],
        lr=0.1,
        weight_decay=0.1,
        momentum=own["momentum"],
        nesterov=own["nesterov"],
        ns_steps=own["ns_steps"],
        adjust_lr_fn="match_rms_adamw",
    )
    start, generator = model.get_parameter("matrix").detach().clone(), torch.Generator().manual_seed(1)
    for _ in range(4):
        gradient = torch.randn(start.shape, generator=generator)
        for of, by in ((model, made), (theirs, torch_muon)):
            of.get_parameter("matrix").grad = gradient.clone()
            by.step()
    a, b = (of.get_parameter("matrix").detach() - start for of in (model, theirs))
    assert (a - b).norm() < 0.02 * b.norm()


# --- moments ---


@pytest.mark.parametrize(
    ("name", "own"), [*((name, {}) for name in optimizer.VARIANTS), ("sgd", {"momentum": 0.0})], ids=str
)
def test_moments_go_by_name_whatever_they_are_called(name: str, own: dict[str, Any]) -> None:
    """A checkpoint put into another optimizer makes its next steps the same to the bit."""
    run = tiny_run(optimizer=optimizer_named(name, **own))
    model, other = build(run), build(tiny_run(seed=1))
    made, restored = optimizer_of(run, model), optimizer_of(run, other)

    def step(of: nn.Module, by: torch.optim.Optimizer, seed: int) -> None:
        by.zero_grad()
        loss_of(of, tokens(2, 20, seed=seed)).backward()
        by.step()

    step(model, made, 0)
    step(model, made, 1)
    assert unpack(pack(model, made, step=2, bytes_seen=9), other, restored, device="cpu") == (2, 9)
    for seed in (2, 3):
        step(model, made, seed)
        step(other, restored, seed)
    for (parameter_name, a), b in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), parameter_name


def trained_to(run: RunConfig, shards: Path, store: RunStore, *, stop_before: int | None) -> list[str]:
    """Train to the end or to before that step; the losses as they are, bit by bit."""
    steps = iter(range(1, 1000))
    with store.lease("r"):
        store.begin("r", run, manifest())
        loop.train(
            run,
            Shards.open(shards),
            store,
            "r",
            device="cpu",
            checkpoint_seconds=0.0,
            stop=lambda: next(steps) == stop_before,
        )
    return [line.values["train/loss"].hex() for line in store.metrics("r") if line.kind == STEP]


@pytest.mark.slow
@every_optimizer
def test_a_resumed_run_repeats_the_whole_one_bit_for_bit(name: str, shards: Path, tmp_path: Path) -> None:
    run, whole, parts = (
        tiny_run(optimizer=optimizer_named(name)),
        RunStore(tmp_path),
        RunStore(tmp_path / "p"),
    )
    losses = trained_to(run, shards, whole, stop_before=None)
    assert trained_to(run, shards, parts, stop_before=6) == losses[:5] and parts.state("r") == "lost"
    assert trained_to(run, shards, parts, stop_before=None) == losses
    saved = [store.load_checkpoint("r") for store in (whole, parts)]
    a, b = (torch.load(io.BytesIO(found[1]), weights_only=True) for found in saved if found)
    for parameter_name, weight in a["model"].items():
        assert torch.equal(weight, b["model"][parameter_name]), parameter_name
        for key, moment in a["optimizer"][parameter_name].items():
            assert torch.equal(moment, b["optimizer"][parameter_name][key]), (parameter_name, key)


def test_moments_of_another_models_parameters_are_refused() -> None:
    run, other = tiny_run(), tiny_run(norm="layernorm")
    model = build(run)
    of_other = optimizer.state_by_name(optimizer_of(other, build(other)), build(other))
    with pytest.raises(ValueError, match="blocks.0.attention_norm.bias|bias"):
        optimizer.load_state_by_name(optimizer_of(run, model), model, of_other)


# --- what has no code ---


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"optimizer": Optimizer("shampoo", 1e-2, {}, 1.0)},
            "optimizer = shampoo (conf/optimizer/shampoo.yaml): not implemented. Choose one of adamw, ",
        ),
        (
            {"schedule": Schedule("rsqrt", 0.1, 0.0)},
            "schedule = rsqrt (conf/schedule/rsqrt.yaml): not implemented. Choose one of cosine, ",
        ),
        (
            {"optimizer": optimizer_named("lion", rho=0.1)},
            "optimizer = lion (conf/optimizer/lion.yaml): its YAML and its function in "
            "lab/train/optimizer.py differ in rho.",
        ),
    ],
    ids=["optimizer", "schedule", "parameter"],
)
def test_an_option_without_code_is_refused_before_any_run_starts(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    store = RunStore(tmp_path)
    of = {"a": tiny_run(), "b": tiny_run(**changes)}
    jobs = {name: job(run, run_id=name, store=tmp_path, shards=tmp_path) for name, run in of.items()}
    with pytest.raises(ConfigError) as error:
        execute(jobs, store, workers=1)
    assert message in str(error.value) and [store.state(name) for name in jobs] == ["pending", "pending"]
