"""Tokenizers lose nothing, count bytes right, and are the same wherever they are trained."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.config import ConfigError, Vocab
from lab.data.tokenizer import ByteTokenizer, Tokenizer, load_tokenizer, tokenizer_hash, train_tokenizer

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
    with pytest.raises(
        ConfigError, match=r"vocab.value = 1000: the corpus yields only 259 .* vocab.value=259"
    ):
        train_tokenizer(iter(["abc"]), Vocab("bpe", 1000))
