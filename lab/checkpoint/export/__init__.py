"""Which architecture of Hugging Face transformers is a run, and what are its tensors called there?

`hf_config` picks the first architecture that is the run's model exactly; `to_hf` and `from_hf` carry weights
over, both ways without loss. A run that none of them is, is refused with the axis that stands in the way.
transformers itself is not needed.

    features        what a run's logits depend on, and which architectures have it
    families        what each architecture calls things
    pieces          one tensor of theirs from some of ours, and back
    folder          a run as a folder that transformers loads
    safetensors     the file of weights
    hf_tokenizer    the file of the tokenizer
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from lab.checkpoint.export.families import FAMILIES, Family, Settings
from lab.checkpoint.export.features import Feature, features
from lab.checkpoint.export.pieces import Piece
from lab.config.schema import RunConfig
from lab.config.strict import ConfigError, show
from lab.model.published import ARCHITECTURES, Architecture
from lab.model.transformer import Transformer


def hf_config(run: RunConfig) -> Settings:
    """The content of config.json. Raises ConfigError where no architecture is this model."""
    name = architecture(run)
    found = FAMILIES[name]
    return {
        "architectures": [found.name],
        "model_type": name,
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
    """The way back. Raises ConfigError.

    `load_state_dict` takes the answer, with strict=False where the head is tied.
    """
    return {
        name: tensor.contiguous()
        for p in _pieces(run)
        for name, tensor in zip(p.ours, p.unpack(state[p.theirs]), strict=True)
    }


def family(run: RunConfig) -> Family:
    """The architecture that is the run's model. Raises ConfigError, see `architecture`."""
    return FAMILIES[architecture(run)]


def architecture(run: RunConfig) -> Architecture:
    """The first architecture that has every feature of the run's model.

    Raises ConfigError with what keeps the nearest architecture from it, under the keys that a user would set.
    """
    found = list(features(run))
    blocking = {name: [f for f in found if name not in f.architectures] for name in ARCHITECTURES}
    nearest = min(ARCHITECTURES, key=lambda name: len(blocking[name]))
    if blocking[nearest]:
        raise ConfigError(_refusal(feature, nearest) for feature in blocking[nearest])
    return nearest


def _refusal(feature: Feature, nearest: Architecture) -> str:
    what = f"{feature.key} = {show(feature.value)}: "
    if not any(feature.table.values()):
        return (
            what
            + "declares no counterpart in transformers, so its meaning would be lost. Declare one beside it"
            " (lab/model/published.py says how)."
        )
    possible = " or ".join(map(show, feature.values_of(nearest)))
    return what + f"{FAMILIES[nearest].name}, the nearest in transformers, has {possible} alone."


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
