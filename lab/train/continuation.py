"""Texts that a model writes, for a reader's own judgement: ancestral sampling at a temperature, the
likeliest token at 0.
"""

import numpy as np
import torch
from torch import Tensor

from lab.data.shards import END_OF_TEXT_ID, Shards
from lab.model.transformer import Transformer

PROMPT_TOKENS = 12
NEW_TOKENS = 64
TEMPERATURE = 0.8


@torch.no_grad()
def samples(
    model: Transformer, shards: Shards, *, count: int, seed: int, device: str
) -> list[dict[str, str]]:
    """{"prompt", "text"} for the beginnings of the first `count` validation documents."""
    length = min(model.context_length, PROMPT_TOKENS + NEW_TOKENS)
    prompt_length = min(PROMPT_TOKENS, length // 2)
    starts = shards.validation_documents[:count]
    prompts = np.stack([shards.validation_stream[s : s + prompt_length] for s in starts]).astype(np.int64)
    generator = torch.Generator().manual_seed(seed)
    rows = continued(model, torch.from_numpy(prompts).to(device), length=length, generator=generator)
    return [
        {
            "prompt": text_of(row[:prompt_length], shards.vocabulary),
            "text": text_of(row[prompt_length:], shards.vocabulary),
        }
        for row in rows.tolist()
    ]


@torch.no_grad()
def continued(
    model: Transformer,
    tokens: Tensor,
    *,
    length: int,
    generator: torch.Generator,
    temperature: float = TEMPERATURE,
) -> Tensor:
    """int64 [B, length]: `tokens` [B, T] continued, each row with `<|endoftext|>` once it has drawn one.

    Beyond its context the model reads the last context_length tokens, the first of them at position 0.
    """
    ended = torch.zeros(len(tokens), 1, dtype=torch.bool, device=tokens.device)
    while tokens.shape[1] < length:
        logits = model(tokens[:, -model.context_length :]).logits[:, -1].float()
        if temperature:
            drawn = torch.multinomial((logits / temperature).softmax(-1).cpu(), 1, generator=generator)
        else:
            drawn = logits.argmax(-1, keepdim=True)
        drawn = drawn.to(tokens.device)
        ended |= drawn == END_OF_TEXT_ID
        tokens = torch.cat([tokens, drawn.masked_fill(ended, END_OF_TEXT_ID)], dim=1)
    return tokens


def text_of(tokens: list[int], vocabulary: list[bytes]) -> str:
    """The text of the tokens up to an `<|endoftext|>` after their first, less a character that is cut.

    vocabulary: the UTF-8 bytes of each token.
    """
    ends = [i for i, token in enumerate(tokens) if i and token == END_OF_TEXT_ID]
    whole = b"".join(vocabulary[token] for token in tokens[: ends[0] if ends else None])
    return whole.decode(errors="ignore")
