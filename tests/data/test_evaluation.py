"""What an evaluation scores, and that a model which knows the corpus's probabilities pays the floor and no
more.
"""

import math
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lab.data.evaluation import choice_batches, evaluation_batches, scored_documents
from lab.data.shards import NO_SKILL, Shards
from lab.train.evaluate import evaluate, forced_choices, leak, skill_table
from tests.hand_shards import write_shards

NAN, NONE = float("nan"), NO_SKILL

# A corpus of three texts. Word ends are part of the event: "a" is half of it, though every text starts with
# an a.
VOCABULARY = [b"", b" ", b"a", b"b", b"c", b" c", b"bc"]
TEXTS = {"ab c": (0.5, [2, 3, 5]), "a c": (0.25, [2, 5]), "a bc": (0.25, [2, 1, 6])}
WORDS = {
    "ab c": [(0, 1.0), (1, 0.0)],
    "a c": [(0, 1.0), (1, 1.0)],
    "a bc": [(0, 1.0), (1, 1.0)],
}  # skill, bits


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    train = [[1, 2], [3], [4, 5, 6, 7, 8, 9, 4], [2]]
    validation = [[1, 2, 3], [4, 5, 6, 7, 8, 9], [5]]
    return Shards.open(write_shards(tmp_path / "s", train, validation))


@pytest.fixture
def known(tmp_path: Path) -> Shards:
    """The three texts as they come, with their floors; forced choice: "c" after "a" against "ab", which no
    text has there.
    """
    floor, skill, documents = [], [], []
    for text, (_, tokens) in TEXTS.items():
        spans = {"ab c": [2, 1], "a c": [1, 1], "a bc": [1, 2]}[text]
        floor.append(NAN)
        skill.append(NONE)
        for (of_word, bits), length in zip(WORDS[text], spans, strict=True):
            floor += [NAN] * (length - 1) + [bits * math.log(2)]
            skill += [of_word] * length
        documents.append(tokens)
    floor.append(NAN)
    skill.append(NONE)
    folder = write_shards(
        tmp_path / "known",
        documents,
        documents,
        vocabulary=VOCABULARY,
        skills=["first", "second"],
        floor=floor,
        skill=skill,
        choices=[(6, 1, 1, 0, 3)],
        choice_tokens=[1, 2, 3],
    )
    return Shards.open(folder)


def oracle(rows: torch.Tensor) -> SimpleNamespace:
    """Logits of the corpus's own next-token probabilities, by counting over its texts."""
    endings = {tuple([0, *tokens, 0]): p for p, tokens in TEXTS.values()}
    logits = torch.full((*rows.shape, len(VOCABULARY)), -30.0)
    for r, row in enumerate(rows.tolist()):
        for t in range(len(row)):
            prefix = tuple(row[: t + 1])
            for text, probability in endings.items():
                if text[: t + 1] == prefix and len(text) > t + 1:
                    logits[r, t, text[t + 1]] = torch.logaddexp(
                        logits[r, t, text[t + 1]], torch.tensor(probability).log()
                    )
    return SimpleNamespace(logits=logits)


def uniform(vocab_size: int):
    """Every next token is as likely as any other."""
    return lambda rows: SimpleNamespace(logits=torch.zeros(*rows.shape, vocab_size))


def scored(forward, shards: Shards, *, context_length: int = 6, rows: int = 2, documents: int = 3) -> dict:
    batches = evaluation_batches(shards, context_length, documents=documents, rows=rows)
    return evaluate(forward, batches, shards, device="cpu", autocast=nullcontext()).values


def test_every_token_is_scored_once_and_its_bytes_are_counted(shards: Shards) -> None:
    first, second = evaluation_batches(shards, 4, documents=3, rows=3)
    assert first.tokens.tolist() == [[0, 1, 2, 3, 0], [0, 4, 5, 6, 7], [7, 8, 9, 0, 0]]
    assert first.scored.tolist() == [[True] * 4, [True] * 4, [True, True, True, False]]
    assert first.bytes.tolist() == [1 + 2 + 3, 4 + 5 + 6 + 7, 8 + 9]
    assert second.tokens.tolist() == [[0, 5, 0]] and second.scored.all()
    assert second.bytes.tolist() == [5]
    assert (first.document.tolist(), second.document.tolist()) == ([0, 1, 1], [2])
    assert not first.exact_bytes.any() and (first.skill == NONE).all()


def test_the_first_documents_only_are_scored(shards: Shards) -> None:
    [batch] = evaluation_batches(shards, 8, documents=1, rows=2)
    assert batch.bytes.sum() == 6
    assert batch.scored.sum() == 4


@pytest.mark.parametrize(
    ("documents", "most_bytes", "scored"),
    [(3, None, 3), (9, None, 3), (2, None, 2), (3, 50, 3), (9, 50, 3), (3, 49, 2), (3, 45, 2), (3, 44, 1)]
    + [(3, 6, 1), (3, 5, 1), (1, 45, 1), (2, 10**12, 2)],
)
def test_whole_documents_are_scored_as_far_as_their_bytes_reach(
    shards: Shards, documents: int, most_bytes: int | None, scored: int
) -> None:
    # Documents of 1 + 2 + 3, 4 + ... + 9 and 5 bytes: 6, 45 and 50 together.
    assert scored_documents(shards, documents=documents, most_bytes=most_bytes) == scored


def test_the_bound_takes_the_same_documents_under_every_tokenizer(tmp_path: Path) -> None:
    texts = [b"abc", b"abcdef", b"a", b"ab"]
    letters = [b"", *(bytes([letter]) for letter in b"abcdef")]
    one = Shards.open(
        write_shards(tmp_path / "one", [[1]], [[b - 96 for b in t] for t in texts], vocabulary=letters)
    )
    whole = Shards.open(
        write_shards(tmp_path / "whole", [[1]], [[n + 1] for n in range(4)], vocabulary=[b"", *texts])
    )
    for most in range(14):
        counts = [scored_documents(s, documents=4, most_bytes=most) for s in (one, whole)]
        assert counts[0] == counts[1] == max(1, sum(sum(map(len, texts[: n + 1])) <= most for n in range(4)))


def test_short_rows_stand_together_and_are_padded_little(tmp_path: Path) -> None:
    texts = [[1] * 3, [1] * 126, [1] * 70, [1] * 2]
    shards = Shards.open(write_shards(tmp_path / "s", [[1]], texts))
    long, short = evaluation_batches(shards, 128, documents=4, rows=2)
    assert (long.tokens.shape, short.tokens.shape) == ((2, 129), (2, 9))
    assert long.scored.sum(axis=1).tolist() == [127, 71] and short.scored.sum(axis=1).tolist() == [4, 3]


def test_the_exact_part_is_whole_words_of_first_rows(tmp_path: Path) -> None:
    # Words of the long document: tokens 4 5, 6, 7 8 9. Five tokens fit in its first row, so the third word is
    # cut.
    floor = [NAN, NAN, 1.5, NAN, NAN, 2.0, 0.5, NAN, NAN, 4.0, NAN]
    skill = [NONE, 0, 0, NONE, 0, 0, 1, 0, 0, 0, NONE]
    folder = write_shards(
        tmp_path / "s", [[1]], [[1, 2], [4, 5, 6, 7, 8, 9]], skills=["x", "y"], floor=floor, skill=skill
    )
    first, second = evaluation_batches(Shards.open(folder), 5, documents=2, rows=2)
    assert first.tokens.tolist() == [[0, 4, 5, 6, 7, 8], [0, 1, 2, 0, 0, 0]]
    assert first.skill.tolist() == [[NONE, 0, 0, 1, NONE, NONE], [NONE, 0, 0, NONE, NONE, NONE]]
    assert first.exact_bytes.tolist() == [4 + 5 + 6, 1 + 2]
    assert np.nansum(first.floor, axis=1).tolist() == [2.5, 1.5]
    assert second.tokens.tolist() == [[8, 9, 0]] and second.scored.all() and not second.exact_bytes.any()
    [whole] = evaluation_batches(Shards.open(folder), 7, documents=2, rows=2)
    assert np.nansum(whole.floor, axis=1).tolist() == [6.5, 1.5]
    # A row that is full at a word's last token can't say that the word ends there.
    full, _ = evaluation_batches(Shards.open(folder), 3, documents=2, rows=2)
    assert full.skill.tolist()[1] == [NONE, 0, 0, NONE]


@pytest.mark.parametrize("context_length", [2, 3, 4, 6])
def test_a_model_that_knows_the_corpus_has_no_excess_in_any_skill(known: Shards, context_length: int) -> None:
    values = scored(oracle, known, context_length=context_length)
    assert values["val/excess_bpb"] == pytest.approx(0, abs=1e-6)
    assert values["val/excess/first"] == pytest.approx(0, abs=1e-6)
    assert values["val/excess/second"] == pytest.approx(0, abs=1e-6)


def test_the_floor_is_the_information_of_the_words(known: Shards) -> None:
    # 3 first words of 1 bit, second words of 0, 1 and 1 bits, over 4 + 3 + 4 bytes.
    assert scored(oracle, known)["val/floor_bpb"] == pytest.approx(5 / 11)


def test_skills_sum_to_the_total_for_any_model(known: Shards) -> None:
    table = torch.randn(len(VOCABULARY), len(VOCABULARY), generator=torch.Generator().manual_seed(1))
    values = scored(lambda rows: SimpleNamespace(logits=table[rows]), known)
    assert values["val/excess_bpb"] == pytest.approx(
        values["val/excess/first"] + values["val/excess/second"], rel=1e-6
    )
    assert values["val/excess_bpb"] > 0


def test_a_uniform_model_pays_for_tokens_and_for_the_end_of_the_last_word(known: Shards) -> None:
    values = scored(uniform(7), known)
    # Of seven tokens three follow a word's end: the end of text, " " and " c". Eight tokens in three texts.
    bits = 8 * math.log2(7) + 3 * math.log2(7 / 3)
    assert values["val/excess_bpb"] == pytest.approx((bits - 5) / 11, rel=1e-6)
    # First words: 4 tokens and 3 ends; second: 4 tokens, 3 ends, less the ends that their first tokens imply.
    first = (4 * math.log2(7) + 3 * math.log2(7 / 3) - 3) / 11
    assert values["val/excess/first"] == pytest.approx(first, rel=1e-6)


def test_the_standard_error_is_that_of_the_sum_over_stories(known: Shards) -> None:
    values = scored(uniform(7), known)
    end, token = math.log2(7 / 3), math.log2(7)
    excess = np.array([3 * token + end - 1, 2 * token + end - 2, 3 * token + end - 2])
    assert values["val/excess_error"] == pytest.approx(np.std(excess, ddof=1) * math.sqrt(3) / 11, rel=1e-6)


def test_without_a_floor_there_is_no_excess(shards: Shards) -> None:
    values = scored(uniform(10), shards)
    assert values["val/excess_bpb"] is None and values["val/floor_bpb"] is None and leak(values) is None
    assert not any(key.startswith("val/excess/") for key in values)


def test_languages_have_bits_per_byte_of_their_own(tmp_path: Path) -> None:
    folder = write_shards(
        tmp_path / "s", [[1]], [[1, 2], [3], [4, 4]], languages=["de", "sw"], language=[1, 0, -1]
    )
    values = scored(uniform(10), Shards.open(folder))
    assert values["val/bpb/sw"] == pytest.approx(3 * math.log2(10) / 3)  # two tokens and the end, for 3 bytes
    assert values["val/bpb/de"] == pytest.approx(2 * math.log2(10) / 3)
    assert values["val/bpb"] == pytest.approx(8 * math.log2(10) / 14)


def test_groups_of_documents_have_bits_a_byte_of_their_own(tmp_path: Path) -> None:
    """40 documents: those from number 32 on join the first eight groups. Rows of 3 tokens cut long ones."""
    documents = [[1 + n % 9] * (1 + n % 5) for n in range(40)]
    folder = Shards.open(write_shards(tmp_path / "s", [[1]], documents))
    batches = evaluation_batches(folder, 3, documents=40, rows=7)
    found = evaluate(uniform(10), batches, folder, device="cpu", autocast=nullcontext())
    tokens, sizes = [0] * 32, [0] * 32
    for n, document in enumerate(documents):
        tokens[n % 32] += len(document) + 1
        sizes[n % 32] += sum(document)  # token n stands for n bytes
    expected = [math.log2(10) * count / size for count, size in zip(tokens, sizes, strict=True)]
    assert found.group_bpb == pytest.approx(expected, rel=1e-5) and found.group_excess_bpb is None
    mean = sum(bpb * size for bpb, size in zip(found.group_bpb, sizes, strict=True)) / sum(sizes)
    assert mean == pytest.approx(found.values["val/bpb"], rel=1e-5)
    few = evaluate(
        uniform(10),
        evaluation_batches(folder, 3, documents=5, rows=7),
        folder,
        device="cpu",
        autocast=nullcontext(),
    )
    assert few.group_bpb == pytest.approx(
        [math.log2(10) * (n + 2) / ((n + 1) ** 2) for n in range(5)], rel=1e-5
    )
    assert all(len(f"{bpb:.12g}".replace(".", "").lstrip("0")) <= 6 for bpb in found.group_bpb)


def test_the_excess_of_groups_is_over_their_exact_part(known: Shards) -> None:
    batches = evaluation_batches(known, 3, documents=3, rows=2)
    found = evaluate(uniform(7), batches, known, device="cpu", autocast=nullcontext())
    # Rows of three tokens know "ab", "a c" and "a", of 2, 2 and 1 tokens, 2, 3 and 1 bytes, 1, 2 and 1 bits.
    end, token = math.log2(7 / 3), math.log2(7)
    expected = [(2 * token + end - 1) / 2, (2 * token + end - 2) / 3, (token + end - 1) / 1]
    assert found.group_excess_bpb == pytest.approx(expected, rel=1e-5)


def test_forced_choices_compare_whole_continuations(known: Shards) -> None:
    # Position 6 is " c" in "a c"; the other is " ab", three tokens, which never follows "a".
    [batch] = choice_batches(known, 6, choices=5, documents=3, rows=4)
    assert batch.tokens.tolist() == [[0, 2, 5, 0, 0], [0, 2, 1, 2, 3]]
    assert (batch.start.tolist(), batch.end.tolist()) == ([2, 2], [3, 5])

    def accuracy(forward) -> dict[str, float]:
        return forced_choices(forward, [batch], known, device="cpu", autocast=nullcontext())

    assert accuracy(oracle) == {"second": 1.0}
    against = torch.zeros(7)
    against[5] = -50.0
    assert accuracy(lambda rows: SimpleNamespace(logits=against.expand(*rows.shape, 7))) == {"second": 0.0}


def test_a_choice_that_does_not_fit_a_row_is_left_out(known: Shards) -> None:
    assert choice_batches(known, 4, choices=5, documents=3, rows=4) == []
    assert choice_batches(known, 6, choices=0, documents=3, rows=4) == []
    assert choice_batches(known, 6, choices=5, documents=1, rows=4) == []


def test_the_skill_table_is_in_bits_a_word(known: Shards) -> None:
    batches = evaluation_batches(known, 6, documents=3, rows=2)
    values = scored(uniform(7), known)
    table = skill_table(values, {"second": 0.5}, batches, known)
    assert table["first"].words == 3 and table["first"].floor == pytest.approx(1.0)
    assert table["second"].floor == pytest.approx(2 / 3)
    assert table["first"].excess == pytest.approx((4 * math.log2(7) + 3 * math.log2(7 / 3) - 3) / 3)
    assert (table["first"].accuracy, table["second"].accuracy) == (None, 0.5)


def test_an_excess_below_zero_is_called_a_leak() -> None:
    assert leak({"val/excess_bpb": -0.029, "val/excess_error": 0.01}) is None
    assert "3.1 standard errors below zero" in leak({"val/excess_bpb": -0.031, "val/excess_error": 0.01})


def test_a_model_that_was_given_the_validation_text_is_caught(known: Shards, tmp_path: Path) -> None:
    """It knows which text comes next, where the grammar has several: below the floor in every story."""
    told = [tokens for _, tokens in TEXTS.values()]

    def memorised(rows: torch.Tensor) -> SimpleNamespace:
        logits = torch.zeros(*rows.shape, 7)
        for r, row in enumerate(rows.tolist()):
            text = next((text for text in told if row[1 : len(text) + 1] == text), [])
            for t, token in enumerate([*text, 0]):
                logits[r, t, token] = 20.0
        return SimpleNamespace(logits=logits)

    values = scored(memorised, known, context_length=4)
    assert values["val/excess_bpb"] < 0
    assert "leaked" in leak(values)
