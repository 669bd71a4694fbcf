"""What does a run write? Texts from its newest checkpoint, from a prompt or from the beginning of a text."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lab.config import ConfigError, RunConfig, run_config
from lab.data.prepare import prepare
from lab.data.shards import END_OF_TEXT_ID, Shards
from lab.data.tokenizer import load_tokenizer
from lab.model.transformer import Transformer
from lab.runs import RunStore
from lab.train import checkpoint
from lab.train.sample import continued, text_of


def write(
    name: str, store: RunStore, *, cache: Path, prompt: str, count: int, tokens: int, temperature: float, seed: int,
    progress: Callable[[str, float], None] | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """`count` records of a text of up to `tokens` tokens after `prompt`.

    Computed on the CPU, so that a seed gives the same texts anywhere. Raises ConfigError.
    """
    try:
        config = run_config(store.read(name, "config.json"))
        step, model = _model(name, config, store)
        shards = _shards(name, config, store, cache, progress)
    except ConfigError as error:
        raise ConfigError([f"{name} (command line): {problem}" for problem in error.problems]) from error
    tokenizer = load_tokenizer((shards.path / "tokenizer.json").read_text())
    # What a terminal of another encoding passes on is no text; every text there is can be encoded.
    text = prompt.encode(errors="surrogateescape").decode(errors="replace")
    ids = [END_OF_TEXT_ID, *tokenizer.encode([text])[0]]
    rows = continued(
        model, torch.tensor([ids]).repeat(count, 1), length=len(ids) + tokens,
        generator=torch.Generator().manual_seed(seed), temperature=temperature,
    )  # fmt: skip
    return [
        {"id": name, "state": "written", "step": step, "prompt": text, "text": text_of([END_OF_TEXT_ID, *row[len(ids) :]], shards)}
        for row in rows.tolist()
    ]  # fmt: skip


def _model(name: str, config: RunConfig, store: RunStore) -> tuple[int, Transformer]:
    """The newest sound checkpoint's step and model."""
    try:
        saved = store.load_checkpoint(name)
    except ValueError as error:
        raise ConfigError(f"{error}.") from error
    if saved is None:
        raise ConfigError(
            f"run {name} is {store.state(name)} and has no checkpoint. Train it first, or choose another."
        )
    model = Transformer(config)
    try:
        checkpoint.unpack_weights(saved[1], model)
    except RuntimeError as error:
        raise ConfigError(
            f"its weights are those of another version of the model. {' '.join(str(error).split())}"
        ) from error
    return saved[0], model


def _shards(
    name: str, config: RunConfig, store: RunStore, cache: Path, progress: Callable[[str, float], None] | None
) -> Shards:
    """The run's own data, whose tokenizer its weights know; built again where the cache lacks them."""
    shards = Shards.open(prepare(config.data, config.vocab, cache=cache, progress=progress))
    known = store.read(name, "manifest.json").get("tokenizer_hash")
    if shards.tokenizer_hash != known if known else shards.fingerprint != config.data_fingerprint:
        raise ConfigError(
            f"data={config.data.name} now gives another tokenizer than the one it was trained with. Train it again."
        )
    return shards
