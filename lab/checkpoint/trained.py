"""What has a run become? The model of its newest checkpoint, and the tokenizer whose tokens it knows."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.config.schema import RunConfig
from lab.config.strict import ConfigError
from lab.data.prepare import prepared_before
from lab.data.tokenizer import Tokenizer, load_tokenizer, tokenizer_hash
from lab.model.transformer import Transformer
from lab.store.run_store import TOKENIZER, RunStore
from lab.train import snapshot as checkpoint


@dataclass(frozen=True)
class Trained:
    """A run after `step` steps, on the CPU."""

    config: RunConfig
    step: int
    model: Transformer
    tokenizer: Tokenizer


def load(
    name: str,
    store: RunStore,
    *,
    cache: Path,
    progress: Callable[[str, float], None] | None = None,
    check: Callable[[RunConfig], object] = lambda config: None,
) -> Trained:
    """The newest sound checkpoint, and the run's own tokenizer. The text that it was trained on is needed
    where neither the run nor the cache has the tokenizer.

    check: refuses a run before anything of it is read. Raises ConfigError.
    """
    try:
        config = store.config(name)
        check(config)
        step, model = _model(name, config, store)
        tokenizer = store.tokenizer(name) or _tokenizer(name, config, store, cache, progress)
    except ConfigError as error:
        raise ConfigError([f"{name} (command line): {problem}" for problem in error.problems]) from error
    return Trained(config, step, model, load_tokenizer(tokenizer))


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


def _tokenizer(
    name: str, config: RunConfig, store: RunStore, cache: Path, progress: Callable[[str, float], None] | None
) -> str:
    """The tokenizer of the run's own shards, of a run from before it was kept."""
    folder = prepared_before(
        config.data_fingerprint, config.data, config.vocab, cache=cache, progress=progress
    )
    found = (folder / TOKENIZER).read_text()
    known = store.manifest(name).tokenizer_hash
    if known and tokenizer_hash(load_tokenizer(found)) != known:
        raise ConfigError(
            f"data={config.data.name} now gives another tokenizer than the one it was trained with."
            " Train it again."
        )
    return found
