"""A run small enough to check in a moment, and the structural axes as files and code know them."""

import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
import yaml

import lab.model
from lab.config import schema as c
from lab.model.initializer import initialize
from lab.model.transformer import Transformer

CONF = Path(__file__).parents[1] / "conf"
MODULES = {
    path.stem: importlib.import_module(f"lab.model.{path.stem}")
    for path in Path(lab.model.__path__[0]).glob("[!_]*.py")
}
AXES: dict[str, ModuleType] = {
    name: module for name, module in sorted(MODULES.items()) if hasattr(module, "VARIANTS")
}
PAIRS = [(axis, name) for axis, module in AXES.items() for name in module.VARIANTS]

SHAPE = c.Shape(
    d_model=32,
    num_layers=2,
    num_heads=3,
    head_dim=8,
    d_ff=48,
    vocab_size=257,
    context_length=24,
    num_kv_heads=None,
)
EMBEDDING = c.Embedding(tied=False, scaled=False, head_scaled=True, normed=False)
INIT = c.Init(embedding_std=1.0, cutoff=3.0, std=None, depth_scaled=False, uniform=False)
STABILITY = c.Stability(
    z_loss=0.0, qk_norm=False, qk_norm_joint=False, attention_softcap=None, output_softcap=None
)


# What the YAML gives is for contexts of hundreds of tokens and more layers.
SMALL: dict[tuple[str, str], dict[str, Any]] = {
    ("pattern", "window"): {"window": 5},
    ("pattern", "strided"): {"stride": 4},
    ("pattern", "fixed"): {"stride": 4, "summary": 1},
    ("pattern", "interleaved"): {"window": 5, "local_layers": 1},
    ("position", "relative"): {"max_distance": 4},
    ("position", "t5"): {"num_buckets": 6, "max_distance": 12},
}


def choice(axis: str, name: str) -> dict[str, Any]:
    """The variant as its YAML gives it."""
    return yaml.safe_load((CONF / axis / f"{name}.yaml").read_text())


def tiny(**changes: Any) -> c.RunConfig:
    """The baseline at a tiny shape; a structural axis may be changed by a variant's name."""
    changes = {
        key: choice(key, value) | SMALL.get((key, value), {})
        if key in AXES and isinstance(value, str)
        else value
        for key, value in changes.items()
    }
    baseline: dict[str, Any] = dict(
        seed=0,
        shape=SHAPE,
        norm_placement=choice("norm_placement", "pre"),
        norm=choice("norm", "rmsnorm"),
        activation=choice("activation", "swiglu"),
        position=choice("position", "rope"),
        block=choice("block", "serial"),
        ffn=choice("ffn", "dense"),
        pattern=choice("pattern", "full"),
        bias=choice("bias", "norm"),
        embedding=EMBEDDING,
        init=INIT,
        regularization=c.Regularization(dropout=0.0, weight_decay=0.0, label_smoothing=0.0),
        stability=STABILITY,
    )
    # The model reads nothing of the rest, so it is left out on purpose: reading it would fail.
    rest = dict.fromkeys(set(inspect.signature(c.RunConfig).parameters) - set(baseline))
    return c.RunConfig(**{**rest, **baseline, **changes})


def build(config: c.RunConfig) -> Transformer:
    model = Transformer(config)
    initialize(model, init=config.init, seed=config.seed)
    return model


def tokens(rows: int, length: int, *, seed: int = 0) -> torch.Tensor:
    return torch.randint(SHAPE.vocab_size, (rows, length), generator=torch.Generator().manual_seed(seed))


def loss_of(model: Transformer, batch: torch.Tensor) -> torch.Tensor:
    """Mean next-token cross-entropy in nats."""
    return F.cross_entropy(model(batch[:, :-1]).logits.flatten(0, 1), batch[:, 1:].flatten())
