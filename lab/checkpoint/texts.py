"""What does a run write? Texts from its newest checkpoint, from a prompt or from the beginning of a text."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from lab.checkpoint import trained
from lab.data.shards import END_OF_TEXT_ID
from lab.store.run_store import RunStore
from lab.train.continuation import continued, text_of


@dataclass(frozen=True)
class WrittenText:
    """What the checkpoint of a run after `step` steps wrote behind a prompt."""

    run_id: str
    step: int
    prompt: str
    text: str


def write(
    name: str,
    store: RunStore,
    *,
    cache: Path,
    prompt: str,
    count: int,
    tokens: int,
    temperature: float,
    seed: int,
    progress: Callable[[str, float], None] | None = None,
) -> list[WrittenText]:
    """`count` texts of up to `tokens` tokens after `prompt`, by the newest checkpoint of a run.

    They are computed on the CPU, so that a seed gives the same texts anywhere. Raises ConfigError.
    """
    run = trained.load(name, store, cache=cache, progress=progress)
    # What a terminal of another encoding passes on is no text; every text there is can be encoded.
    text = prompt.encode(errors="surrogateescape").decode(errors="replace")
    ids = [END_OF_TEXT_ID, *run.tokenizer.encode([text])[0]]
    rows = continued(
        run.model,
        torch.tensor([ids]).repeat(count, 1),
        length=len(ids) + tokens,
        generator=torch.Generator().manual_seed(seed),
        temperature=temperature,
    )
    vocabulary = run.tokenizer.vocabulary
    return [
        WrittenText(name, run.step, text, text_of([END_OF_TEXT_ID, *row[len(ids) :]], vocabulary))
        for row in rows.tolist()
    ]
