"""The project's own model for computed claims: configured by `conf/`, of a small shape, in float64."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import torch
from torch import Tensor

from lab.config.schema import Config, RunConfig, Shape

SHAPE = Shape(
    d_model=48,
    num_layers=3,
    num_heads=4,
    head_dim=12,
    d_ff=64,
    vocab_size=61,
    context_length=32,
    num_kv_heads=None,
)


@cache
def _composed(overrides: tuple[str, ...]) -> Config:
    from lab.config.compose import Override, compose

    texts = ("size=nano", "engine.device=cpu", "tracker=none", *overrides)
    return compose([Override(text, "lab/lecture/exact") for text in texts])


def run_config(*overrides: str, seed: int = 0, **shape: int) -> RunConfig:
    """The baseline with Hydra overrides, at `SHAPE` with some of its fields changed."""
    from lab.plan.budget import TrainingText, resolve

    shaped = dataclasses.replace(SHAPE, **shape)
    base = resolve(_composed(overrides), TrainingText("none", 1.0, 1, "none"), shape_=shaped)
    return dataclasses.replace(base, seed=seed)


def model(config: RunConfig, *, dtype: torch.dtype = torch.float64) -> Any:
    """The model of `config` with the weights of its seed, in evaluation mode.

    It is typed loosely, for the checks take it apart.
    """
    from lab.model.initializer import initialize
    from lab.model.transformer import Transformer

    built = Transformer(config)
    initialize(built, init=config.init, seed=config.seed)
    return built.to(dtype).eval()


def tokens(rows: int, length: int, *, vocab_size: int = SHAPE.vocab_size, seed: int = 0) -> Tensor:
    """Random tokens [rows, length]."""
    return torch.randint(vocab_size, (rows, length), generator=torch.Generator().manual_seed(seed))


def parameters(module: torch.nn.Module) -> int:
    """The number of weights of a module."""
    return sum(parameter.numel() for parameter in module.parameters())
