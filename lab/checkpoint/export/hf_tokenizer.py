"""Which files make transformers split text as a run's tokenizer does?

A text gets the same ids, after an `<|endoftext|>` before its first: a run has seen every text begin so.
Text that spells the special token out stays text.
"""

import json

from lab.data.shards import END_OF_TEXT_ID
from lab.data.tokenizer import END_OF_TEXT, ByteTokenizer, Tokenizer, byte_alphabet

Json = dict[str, object]
SPECIAL = {
    "id": END_OF_TEXT_ID,
    "content": END_OF_TEXT,
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "special": True,
}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}


def hf_tokenizer(tokenizer: Tokenizer) -> Json:
    """The content of tokenizer.json, as the library tokenizers reads it."""
    values: Json = _bytes() if isinstance(tokenizer, ByteTokenizer) else json.loads(tokenizer.to_json())
    first: Json = {"SpecialToken": {"id": END_OF_TEXT, "type_id": 0}}
    texts: list[Json] = [{"Sequence": {"id": name, "type_id": i}} for i, name in enumerate("AB")]
    ids = {END_OF_TEXT: {"id": END_OF_TEXT, "ids": [END_OF_TEXT_ID], "tokens": [END_OF_TEXT]}}
    processor = {
        "type": "TemplateProcessing",
        "single": [first, texts[0]],
        "pair": [first, *texts],
        "special_tokens": ids,
    }
    return values | {"post_processor": processor}


def hf_tokenizer_config(context_length: int) -> Json:
    """The content of tokenizer_config.json."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "pad_token": END_OF_TEXT,
        "model_max_length": context_length,
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }


def _bytes() -> Json:
    """A byte-level BPE that merges nothing, so that each byte keeps an id of its own: byte + 1."""
    vocabulary = {END_OF_TEXT: END_OF_TEXT_ID} | {
        character: byte + 1 for character, byte in byte_alphabet().items()
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [SPECIAL],
        "normalizer": None,
        "pre_tokenizer": BYTE_LEVEL | {"use_regex": False},
        "decoder": BYTE_LEVEL | {"use_regex": False},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
