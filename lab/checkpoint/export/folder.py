"""A trained run as a folder that `AutoModelForCausalLM` and `AutoTokenizer` of transformers load, without
code of ours.

config.json, model.safetensors         architecture and fp32 weights
generation_config.json                 texts end with `<|endoftext|>`
tokenizer.json, tokenizer_config.json
export.json                            which run at which step; what marks the folder as ours
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from lab.checkpoint import trained
from lab.checkpoint.export import family, hf_config, safetensors, to_hf
from lab.checkpoint.export.hf_tokenizer import hf_tokenizer, hf_tokenizer_config
from lab.config.strict import ConfigError
from lab.data.shards import END_OF_TEXT_ID
from lab.store.files import dumps
from lab.store.run_store import RunStore

MARK = "export.json"
FILES = {
    "config.json",
    "model.safetensors",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    MARK,
}
ENDS = {"bos_token_id": END_OF_TEXT_ID, "eos_token_id": END_OF_TEXT_ID}


def write(
    name: str,
    store: RunStore,
    folder: Path,
    *,
    cache: Path,
    progress: Callable[[str, float], None] | None = None,
) -> dict[str, object]:
    """Write a run's newest checkpoint to `folder`, whole or not at all; returns what export.json says.

    Raises ConfigError where transformers has no such architecture, naming the axes in the way, and where
    the folder holds anything that another export did not write.
    """
    folder = folder.resolve()
    if folder.exists() and not _ours(folder):
        raise ConfigError(
            f"{folder} (command line): is no earlier export and not empty. Choose another folder."
        )
    run = trained.load(name, store, cache=cache, progress=progress, check=family)
    about = {"run_id": name, "step": run.step, "architecture": family(run.config).name}
    generation = ENDS | {"pad_token_id": END_OF_TEXT_ID, "do_sample": False}
    records = {
        "config.json": hf_config(run.config) | ENDS,
        "generation_config.json": generation,
        "tokenizer.json": hf_tokenizer(run.tokenizer),
        "tokenizer_config.json": hf_tokenizer_config(run.config.shape.context_length),
        MARK: about,
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    unfinished.mkdir()
    try:
        safetensors.write(to_hf(run.config, run.model.state_dict()), unfinished / "model.safetensors")
        for file, values in records.items():
            (unfinished / file).write_text(dumps(values, indent=1, ensure_ascii=False), encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return about


def _ours(folder: Path) -> bool:
    """Whether nothing is lost with the folder: it is empty, or an export and nothing else."""
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else {"a file"}
    return not found or (MARK in found and found <= FILES)
