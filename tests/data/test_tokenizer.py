"""Tokenizers lose nothing, count bytes right, and are the same wherever they are trained."""

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.config.schema import Vocab
from lab.config.strict import ConfigError
from lab.data.shards import token_dtype
from lab.data.tokenizer import ByteTokenizer, Tokenizer, load_tokenizer, tokenizer_hash, train_tokenizer
from tests.paths import ROOT

CONF = ROOT / "conf" / "vocab"
TEXTS = ["The cat sat on the mat. The cat ran.", "A naïve fox — 狐 — saw the cat on the mat."] * 5


def bpe(value: int = 280) -> Tokenizer:
    return train_tokenizer(iter(TEXTS), Vocab("bpe", value))


BOTH = [ByteTokenizer(), bpe()]


@pytest.mark.parametrize("tokenizer", BOTH, ids=["bytes", "bpe"])
@given(text=st.text(st.characters(exclude_categories=("Cs",)), max_size=40))
@settings(max_examples=60, deadline=None)
def test_any_text_comes_back_and_its_bytes_are_counted(tokenizer: Tokenizer, text: str) -> None:
    [ids] = tokenizer.encode([text])
    assert tokenizer.decode(ids) == text
    assert b"".join(tokenizer.vocabulary[i] for i in ids) == text.encode()
    assert 0 not in ids


@pytest.mark.parametrize("tokenizer", BOTH, ids=["bytes", "bpe"])
def test_spelling_out_the_special_token_gives_ordinary_ids(tokenizer: Tokenizer) -> None:
    text = "a <|endoftext|> b"
    reloaded = load_tokenizer(tokenizer.to_json())
    for each in (tokenizer, reloaded):
        [ids] = each.encode([text])
        assert 0 not in ids
        assert each.decode(ids) == text


def test_the_byte_tokenizer_is_byte_plus_one() -> None:
    assert ByteTokenizer().encode(["aé"]) == [[0x61 + 1, 0xC3 + 1, 0xA9 + 1]]


def test_bpe_merges_the_commonest_pair_first() -> None:
    # In "xyxyxy" the pair xy stands three times and yx twice; 257 ids are bytes and the special token.
    tokenizer = train_tokenizer(iter(["xyxyxy"]), Vocab("bpe", 258))
    [ids] = tokenizer.encode(["xyxyx"])
    assert [tokenizer.vocabulary[i] for i in ids] == [b"xy", b"xy", b"x"]
    assert ids[0] == ids[1] == 257


def test_bpe_vocabulary_holds_each_byte_once_and_the_special_token() -> None:
    tokenizer = bpe()
    assert tokenizer.vocab_size == len(tokenizer.vocabulary) == 280
    assert tokenizer.vocabulary[0] == b""
    assert {token for token in tokenizer.vocabulary if len(token) == 1} == {bytes([b]) for b in range(256)}


def test_training_is_deterministic_and_survives_saving() -> None:
    first, second = bpe(), bpe()
    assert tokenizer_hash(first) == tokenizer_hash(second)
    reloaded = load_tokenizer(first.to_json())
    assert tokenizer_hash(reloaded) == tokenizer_hash(first)
    assert reloaded.encode(TEXTS) == first.encode(TEXTS)


def test_a_corpus_too_small_for_the_vocabulary_is_refused() -> None:
    # "abc" once: a+b, then ab+c (258 and 259 tokens); nothing is left to merge.
    with pytest.raises(ConfigError) as raised:
        train_tokenizer(iter(["abc"]), Vocab("bpe", 1000))
    assert str(raised.value) == (
        "vocab.value = 1000: asked 1000, the corpus yields 259 tokens. "
        "Choose vocab.value=259 or less, or a larger corpus."
    )


def test_the_largest_vocabulary_fits_into_two_bytes() -> None:
    """Special token, 256 bytes and 65,279 of their pairs, the last of them the two bytes of é."""
    tokenizer = json.loads(bpe().to_json())
    letters = {token: i for token, i in tokenizer["model"]["vocab"].items() if i < 257}
    alphabet = list(letters)[1:]
    assert letters["<|endoftext|>"] == 0 and len(alphabet) == 256
    last = ("Ã", "©")
    pairs = [pair for pair in product(alphabet, alphabet) if pair != last][: 65536 - 257 - 1] + [last]
    tokenizer["model"]["vocab"] = letters | {a + b: 257 + i for i, (a, b) in enumerate(pairs)}
    tokenizer["model"]["merges"] = pairs
    largest = load_tokenizer(json.dumps(tokenizer))
    assert largest.vocab_size == len(largest.vocabulary) == 65536
    [ids] = largest.encode(["é"])
    assert ids == [65535] and largest.vocabulary[65535] == "é".encode()
    assert np.array(ids, dtype=token_dtype(65536)).tolist() == [65535]
    assert token_dtype(65536).itemsize == 2 and token_dtype(65537).itemsize == 4


@pytest.mark.parametrize("name", sorted(path.stem for path in CONF.glob("bpe_*.yaml")))
def test_a_vocabulary_is_what_its_name_says(name: str) -> None:
    value = int(name.removeprefix("bpe_"))
    assert f"tokenizer: bpe\nvalue: {value}\n" in (CONF / f"{name}.yaml").read_text()
    assert value <= 65536
