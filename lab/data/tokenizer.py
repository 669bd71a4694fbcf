"""How does text become token ids, and how many bytes does each id stand for? Bytes, or byte-level BPE.

Both tokenizers are lossless: every text can be encoded, and the bytes that its ids stand for are exactly its
own UTF-8 bytes. Id 0 is `<|endoftext|>`, the only special token; a text that spells it out gets ordinary ids.
BPE: Sennrich et al. 2016 on bytes as in GPT-2 (Radford et al. 2019, section 2.2).
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Protocol

from tokenizers import Tokenizer as BpeModel
from tokenizers import decoders, models, pre_tokenizers, trainers

from lab.config.schema import Vocab
from lab.config.strict import ConfigError

END_OF_TEXT = "<|endoftext|>"
TRAINING_BYTES = 32_000_000
"""BPE reads the first documents of the training split, up to about this many bytes."""


class Tokenizer(Protocol):
    vocab_size: int
    vocabulary: list[bytes]
    """The UTF-8 bytes that each id stands for; none for the end-of-text token."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]: ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def to_json(self) -> str: ...


class ByteTokenizer:
    """Id = byte + 1."""

    vocab_size = 257

    def __init__(self) -> None:
        self.vocabulary = [b"", *(bytes([byte]) for byte in range(256))]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[byte + 1 for byte in text.encode()] for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(i - 1 for i in ids if i != 0).decode(errors="replace")

    def to_json(self) -> str:
        return json.dumps({"model": {"type": "bytes"}})


class BpeTokenizer:
    """Byte-level BPE, from its JSON form."""

    def __init__(self, serialized: str) -> None:
        self._model = BpeModel.from_str(serialized)
        # Text that spells out the special token must not turn into it; the JSON form lacks this switch.
        self._model.encode_special_tokens = True
        self.vocab_size = self._model.get_vocab_size()
        byte_of = byte_alphabet()
        self.vocabulary = [b""] * self.vocab_size
        for token, token_id in self._model.get_vocab().items():
            if token != END_OF_TEXT:
                self.vocabulary[token_id] = bytes(byte_of[character] for character in token)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._model.encode_batch_fast(texts, add_special_tokens=False)]

    def decode(self, ids: Sequence[int]) -> str:
        return self._model.decode(list(ids), skip_special_tokens=True)

    def to_json(self) -> str:
        return self._model.to_str()


def train_tokenizer(texts: Iterator[str], vocab: Vocab) -> Tokenizer:
    """The tokenizer that `vocab` asks for; BPE is trained on `texts`, and the same texts give the same ids.

    Raises ConfigError if the texts have too few repeated pairs for that many tokens.
    """
    if vocab.tokenizer == "bytes":
        return ByteTokenizer()
    model = BpeModel(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab.value,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator(texts, trainer)
    found = model.get_vocab_size()
    if found != vocab.value:
        raise ConfigError(
            f"vocab.value = {vocab.value}: asked {vocab.value}, the corpus yields {found} tokens. "
            f"Choose vocab.value={found} or less, or a larger corpus."
        )
    return BpeTokenizer(model.to_str())


def byte_alphabet() -> dict[str, int]:
    """The byte that each character of the byte-level alphabet stands for: printable ones for themselves,
    the others in order from 256 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def load_tokenizer(serialized: str) -> Tokenizer:
    """The tokenizer whose `to_json` is `serialized`."""
    if json.loads(serialized)["model"]["type"] == "bytes":
        return ByteTokenizer()
    return BpeTokenizer(serialized)


def tokenizer_hash(tokenizer: Tokenizer) -> str:
    return hashlib.sha256(tokenizer.to_json().encode()).hexdigest()
