"""Which architecture of Hugging Face transformers is a run, and what are its tensors called there?

`hf_config` picks the first of families.py that is the run's model exactly; `to_hf` and `from_hf` carry
weights over, both ways without loss. A run that none of them is, is refused with the axis that stands in
the way. transformers itself is not needed.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from lab.checkpoint.export.families import FAMILIES, Family
from lab.checkpoint.export.pieces import Piece
from lab.config.schema import RunConfig
from lab.config.strict import ConfigError, show
from lab.model.transformer import Transformer


def hf_config(run: RunConfig) -> dict[str, Any]:
    """The content of config.json. Raises ConfigError where no architecture is this model."""
    found = family(run)
    return {
        "architectures": [found.architecture],
        "model_type": found.model_type,
        "dtype": "float32",
        "vocab_size": run.shape.vocab_size,
        "tie_word_embeddings": run.embedding.tied,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        **found.config(run),
    }


def to_hf(run: RunConfig, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A model's parameters under their names and in their shapes. Raises ConfigError."""
    return {p.theirs: p.pack(tuple(state[name] for name in p.ours)).contiguous() for p in _pieces(run)}


def from_hf(run: RunConfig, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The way back: `load_state_dict` takes it, with strict=False where the head is tied. Raises ConfigError."""
    return {
        name: tensor.contiguous()
        for p in _pieces(run)
        for name, tensor in zip(p.ours, p.unpack(state[p.theirs]), strict=True)
    }


def family(run: RunConfig) -> Family:
    """The first architecture that is the run's model. Raises ConfigError with what keeps the nearest from it."""
    has = features(run)
    blocking = [[key for key, allowed in f.allows.items() if has[key] not in allowed] for f in FAMILIES]
    keys, nearest = min(zip(blocking, FAMILIES, strict=True), key=lambda pair: len(pair[0]))
    if keys:
        raise ConfigError(
            f"{key} = {show(has[key])}: {nearest.architecture}, the nearest in transformers, has"
            f" {' or '.join(map(show, nearest.allows[key]))} alone."
            for key in keys
        )
    return nearest


def features(run: RunConfig) -> dict[str, Any]:
    """What an architecture may or may not have, under the keys that a user would set."""
    s, stability, embedding = run.shape, run.stability, run.embedding
    axes = ("block", "norm_placement", "norm", "activation", "position", "bias", "pattern", "ffn")
    head = "tied and scaled" if embedding.head_scaled else "tied"
    return {axis: getattr(run, axis)["name"] for axis in axes} | {
        "pattern.global_position": run.pattern.get("global_position", "keep"),
        "attention.num_kv_heads": "all" if s.kv_heads == s.num_heads else "fewer",
        "heads": "filling d_model" if s.num_heads * s.head_dim == s.d_model else "not filling d_model",
        "ffn_ratio": s.d_ff / s.d_model,
        "norm.eps": run.norm.get("eps"),
        "stability.qk_norm": stability.qk_norm,
        "stability.qk_norm_joint": stability.qk_norm_joint,
        "stability.attention_softcap": "a number" if stability.attention_softcap else None,
        "stability.output_softcap": "a number" if stability.output_softcap else None,
        "embedding": head if embedding.tied else "untied",
        "embedding.scaled": embedding.scaled,
        "embedding.normed": embedding.normed,
    }


def _pieces(run: RunConfig) -> list[Piece]:
    with torch.device("meta"):
        names = {name for name, _ in Transformer(run).named_parameters()}
    found = [p for p in _expanded(family(run).pieces(run)) if names.issuperset(p.ours)]
    left = names.difference(*(p.ours for p in found))
    assert not left, f"no name in transformers for {sorted(left)}"
    return found


def _expanded(pieces: Iterator[Piece]) -> Iterator[Piece]:
    for p in pieces:
        for part in (".weight", ".bias", ""):
            yield Piece(p.theirs + part, tuple(name + part for name in p.ours), p.pack, p.unpack)
