"""Building shards: right counts, once, whoever asks and whatever dies or rots."""

import gzip
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lab.config.schema import Data, Vocab
from lab.config.strict import ConfigError
from lab.data.evaluation import choice_batches, evaluation_batches
from lab.data.prepare import prepare, word_floor
from lab.data.shards import NO_SKILL, Shards
from lab.data.stories import generator as stories
from lab.data.stories.generator import SKILLS, Story, Word
from lab.data.tokenizer import load_tokenizer
from tests.hand_shards import sealed
from tests.paths import ROOT
from tests.tiny_run import GRAMMAR

pytestmark = pytest.mark.slow

STORIES = Data("stories", None, None, 0.05, "text", 30, 10, seed=3, grammar=GRAMMAR)
BPE = Vocab("bpe", 300)
BYTES = Vocab("bytes", 257)


def text_data(path: Path) -> Data:
    return Data("text", str(path), None, 0.25, "text", 0, 0, 0, GRAMMAR)


def write_jsonl(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts))
    return path


def read_documents(shards: Shards, split: str) -> list[str]:
    tokenizer = load_tokenizer((shards.path / "tokenizer.json").read_text())
    stream = {"train": shards.train_stream, "validation": shards.validation_stream}[split]
    ends = np.flatnonzero(np.asarray(stream) == 0)
    return [tokenizer.decode(stream[a + 1 : b].tolist()) for a, b in zip(ends, ends[1:], strict=False)]


@pytest.mark.parametrize("vocab", [BPE, BYTES], ids=["bpe", "bytes"])
def test_the_floor_of_whole_stories_is_their_probability(tmp_path: Path, vocab: Vocab) -> None:
    shards = Shards.open(prepare(STORIES, vocab, cache=tmp_path, progress=None))
    held_out = list(stories.generate(GRAMMAR, seed=3, split="validation", count=10))
    bits = sum(word.bits for story in held_out for word in story.words)
    batches = evaluation_batches(shards, 2500, documents=10, rows=4)
    assert sum(np.nansum(batch.floor) for batch in batches) == pytest.approx(bits * math.log(2))
    assert sum(batch.bytes.sum() for batch in batches) == sum(len(story.text) for story in held_out)
    # Cut rows: the floor of the words that fit, found in the text of the row.
    cut = [b for b in evaluation_batches(shards, 40, documents=10, rows=1) if b.exact_bytes]
    for story, batch in zip(held_out, cut, strict=True):
        exact = batch.tokens[0][batch.skill[0] != NO_SKILL]
        text = b"".join(shards.vocabulary[token] for token in exact).decode()
        assert story.text.startswith(text) and story.text[len(text)].isspace()
        known = [word for word in story.words if word.end <= len(text)]
        assert np.nansum(batch.floor) == pytest.approx(sum(word.bits for word in known) * math.log(2))
        assert batch.exact_bytes == len(text) == known[-1].end
        assert [SKILLS.index(shards.skills[w.skill]) for w in known] == [
            int(s) for s, nats in zip(batch.skill[0], batch.floor[0], strict=True) if not np.isnan(nats)
        ]


@pytest.mark.parametrize("vocab", [BPE, BYTES], ids=["bpe", "bytes"])
def test_forced_choices_are_the_generator_s(tmp_path: Path, vocab: Vocab) -> None:
    shards = Shards.open(prepare(STORIES, vocab, cache=tmp_path, progress=None))
    held_out = list(stories.generate(GRAMMAR, seed=3, split="validation", count=10))
    expected = {
        (story.text[: choice.start], choice.truth, choice.other)
        for story in held_out
        for choice in story.choices
    }
    found = set()
    for batch in choice_batches(shards, 2500, choices=1000, documents=10, rows=8):
        for pair in range(len(batch.skill)):
            texts = []
            for row in (2 * pair, 2 * pair + 1):
                tokens, start, end = batch.tokens[row], batch.start[row], batch.end[row]
                texts.append(b"".join(shards.vocabulary[t] for t in tokens[start:end]).decode())
            found.add((b"".join(shards.vocabulary[t] for t in tokens[:start]).decode(), *texts))
    assert found == expected


@pytest.mark.parametrize("context_length", [24, 100, 2500])
def test_every_tokenizer_is_scored_on_the_same_bytes(tmp_path: Path, context_length: int) -> None:
    held_out = stories.generate(GRAMMAR, seed=3, split="validation", count=6)
    expected = sum(len(story.text.encode()) for story in held_out)
    for vocab in (BYTES, BPE):
        shards = Shards.open(prepare(STORIES, vocab, cache=tmp_path, progress=None))
        batches = evaluation_batches(shards, context_length, documents=6, rows=4)
        assert sum(batch.bytes.sum() for batch in batches) == expected


def test_the_floor_stands_at_the_ends_of_words() -> None:
    story = Story("ab c.", (Word(2, 1.0, 4), Word(5, 3.0, 7)), ())
    floor, skill = word_floor(story, np.array([1, 2, 4, 5]))
    np.testing.assert_allclose(floor, [np.nan, math.log(2), np.nan, 3 * math.log(2)])
    assert skill.tolist() == [4, 4, 7, 7]


def test_duplicates_stay_on_one_side_of_a_held_out_split(tmp_path: Path) -> None:
    texts = [f"document {i // 2}{' ' if i % 2 else '  '}of many" for i in range(200)] * 3
    path = write_jsonl(tmp_path / "all.jsonl", texts)
    shards = Shards.open(prepare(text_data(path), BYTES, cache=tmp_path / "cache", progress=None))
    sides = [Counter(" ".join(t.split()) for t in read_documents(shards, s)) for s in ("train", "validation")]
    assert not sides[0].keys() & sides[1].keys()
    assert sides[0] + sides[1] == Counter(" ".join(text.split()) for text in texts)
    assert 10 <= len(sides[1]) <= 40


def test_a_leaked_document_fails_the_build(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "train.jsonl", ["one", "two  words", "three"])
    write_jsonl(tmp_path / "validation.jsonl", ["other", "two words\n"])
    with pytest.raises(ConfigError, match=r"1 of 2 validation documents .*validation.jsonl:2.*train.jsonl:2"):
        prepare(text_data(tmp_path), BYTES, cache=tmp_path / "cache", progress=None)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_the_tokenizer_sees_training_text_only(tmp_path: Path) -> None:
    tokenizers = []
    for held_out in ("aaaa aaaa aaaa", "zzzz zzzz zzzz"):
        write_jsonl(tmp_path / "train.jsonl", ["the cat sat on the mat"])
        write_jsonl(tmp_path / "validation.jsonl", [held_out])
        folder = prepare(text_data(tmp_path), Vocab("bpe", 262), cache=tmp_path / "cache", progress=None)
        tokenizers.append((folder / "tokenizer.json").read_text())
    assert tokenizers[0] == tokenizers[1]


def test_the_cache_is_keyed_by_content(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = write_jsonl(tmp_path / "a.jsonl", [f"text {i}" for i in range(50)])
    folder = prepare(text_data(first), BYTES, cache=cache, progress=None)
    copy = tmp_path / "b.jsonl"
    copy.write_bytes(first.read_bytes())
    os.utime(copy, (1, 1))
    assert prepare(text_data(copy), BYTES, cache=cache, progress=None) == folder
    copy.write_bytes(first.read_bytes().replace(b"text 7", b"text_7"))
    changed = {prepare(text_data(copy), BYTES, cache=cache, progress=None)}
    changed.add(
        prepare(replace(text_data(first), validation_fraction=0.5), BYTES, cache=cache, progress=None)
    )
    changed.add(prepare(text_data(first), Vocab("bpe", 260), cache=cache, progress=None))
    assert len(changed | {folder}) == 4


def test_meta_is_sealed_by_the_hash_of_its_other_keys_and_knows_every_file(tmp_path: Path) -> None:
    folder = prepare(STORIES, BPE, cache=tmp_path, progress=None)
    meta = json.loads((folder / "meta.json").read_text())
    checksum = meta.pop("checksum")
    assert sealed(meta)["checksum"] == checksum
    for name, seal in meta["files"].items():
        content = (folder / name).read_bytes()
        assert seal == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert {path.name for path in folder.iterdir()} == {"meta.json", *meta["files"]}
    assert meta["train"]["tokens"] == (folder / "train.bin").stat().st_size / 2


@pytest.mark.parametrize("name", ["train.bin", "validation_documents.npy", "meta.json", "tokenizer.json"])
def test_damage_is_noticed_and_the_shards_are_built_again(tmp_path: Path, name: str) -> None:
    folder = prepare(STORIES, BPE, cache=tmp_path, progress=None)
    clean = {path.name: path.read_bytes() for path in folder.iterdir()}
    size = len(clean[name])
    flipped = bytearray(clean[name])
    flipped[size // 2] ^= 0xFF
    for damaged in (clean[name][:-1], clean[name][: size // 2], bytes(flipped)):
        (folder / name).write_bytes(damaged)
        assert prepare(STORIES, BPE, cache=tmp_path, progress=None) == folder
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == clean


BUILD = """
import os, signal, sys
from pathlib import Path
from lab.config.schema import Vocab
from lab.data.prepare import prepare
from tests.data.test_prepare import STORIES

def progress(message, fraction):
    print(message.split(":")[0], flush=True)
    if message.startswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

prepare(STORIES, Vocab("bpe", 300), cache=Path(sys.argv[1]), progress=progress)
"""


def start_builder(cache: Path, die_at: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BUILD, str(cache), die_at]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_two_builders_at_once_build_once(tmp_path: Path) -> None:
    builders = [start_builder(tmp_path, "never") for _ in range(2)]
    outputs = [builder.communicate()[0] for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0]
    assert sorted(output.count("training the tokenizer") for output in outputs) == [0, 1]
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1


@pytest.mark.parametrize("moment", ["reading", "training the tokenizer", "train:", "validation:"])
def test_a_killed_builder_leaves_nothing_in_use(tmp_path: Path, moment: str) -> None:
    builder = start_builder(tmp_path, moment)
    builder.communicate()
    assert builder.returncode == -signal.SIGKILL
    [leftover] = [path for path in tmp_path.iterdir() if path.is_dir()]
    other = tmp_path / "0123456789abcdef.building-1"
    other.mkdir()
    folder = prepare(STORIES, BPE, cache=tmp_path, progress=None)
    Shards.open(folder).verify()
    # Another corpus's builder may be alive: only leftovers of this one are known to be dead.
    assert other.exists() and not leftover.exists()


def test_gzip_and_plain_files_give_the_same_shards(tmp_path: Path) -> None:
    plain = write_jsonl(tmp_path / "a.jsonl", [f"text {i}" for i in range(50)])
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    folders = [prepare(text_data(p), BYTES, cache=tmp_path / "c", progress=None) for p in (plain, packed)]
    assert (folders[0] / "train.bin").read_bytes() == (folders[1] / "train.bin").read_bytes()
