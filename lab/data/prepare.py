"""How do documents become token shards, once, whoever asks and whatever dies on the way?

Shards are cached under a hash of the corpus content, the vocabulary and the builder's version. They are
built in a private folder under a file lock, verified, and renamed: a folder of that name is finished.
Damage is noticed by checksum at the next `prepare` and the shards are built again.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import numpy as np

from lab.config.schema import Data, Vocab
from lab.config.strict import ConfigError
from lab.data.corpus import Corpus, Document, Documents, batches, open_corpus
from lab.data.leaks import Leaks
from lab.data.shard_meta import FORMAT_VERSION, NAME, FileSeal, ShardError, ShardMeta, SplitCounts, write_meta
from lab.data.shards import END_OF_TEXT_ID, NO_SKILL, Shards, token_dtype
from lab.data.stories.generator import SKILLS, Story
from lab.data.tokenizer import TRAINING_BYTES, Tokenizer, tokenizer_hash, train_tokenizer

BUILDER_VERSION = 3
NATS_PER_BIT = float(np.log(2))

Progress = Callable[[str, float], None]
"""Called with a message and the fraction done."""


def prepare(data: Data, vocab: Vocab, *, cache: Path, progress: Progress | None) -> Path:
    """The folder of finished shards for this corpus and vocabulary; builds them if need be.

    Raises ConfigError for whatever is wrong with the corpus or the vocabulary.
    """
    corpus = open_corpus(data)
    folder = _folder(corpus.fingerprint, vocab, cache)
    if _is_sound(folder):
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with _exclusive(folder.with_suffix(".lock")):
        # Another builder may have finished while this one waited.
        if not _is_sound(folder):
            _replace(folder, corpus, data, vocab, progress or (lambda message, fraction: None))
    return folder


def prepared_before(
    fingerprint: str, data: Data, vocab: Vocab, *, cache: Path, progress: Progress | None
) -> Path:
    """The folder of the shards that had this fingerprint: found by it, wherever the text has gone, or built
    again. Raises ConfigError where the cache lacks them and the text is gone or another now.
    """
    folder = _folder(fingerprint, vocab, cache)
    if _is_sound(folder):
        return folder
    told_otherwise = data.name == "stories" and data.grammar is None  # by the first recipe
    if told_otherwise or prepare(data, vocab, cache=cache, progress=progress) != folder:
        raise ConfigError(
            f"data.path = {data.path}: is another text than it was trained on, whose shards are no longer in "
            f"{cache}. Put that text back, or train on this one."
            if data.path
            else f"data={data.name}: is another text now than it was trained on. Train it again."
        )
    return folder


def _folder(fingerprint: str, vocab: Vocab, cache: Path) -> Path:
    recipe = [BUILDER_VERSION, FORMAT_VERSION, fingerprint, vocab.tokenizer, vocab.value]
    return cache / hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Holds the lock; the system releases it if this process dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_sound(folder: Path) -> bool:
    if not folder.exists():
        return False
    try:
        Shards.open(folder).verify()
    except ShardError:
        return False
    return True


def _replace(folder: Path, corpus: Corpus, data: Data, vocab: Vocab, progress: Progress) -> None:
    """Builds beside `folder` and renames. Under the lock any such folder found there is a dead builder's."""
    for dead in folder.parent.glob(f"{folder.name}.building-*"):
        shutil.rmtree(dead)
    building = folder.with_suffix(f".building-{os.getpid()}")
    building.mkdir()
    try:
        _build(building, corpus, data, vocab, progress)
        if folder.exists():
            damaged = building / "damaged"
            folder.rename(damaged)
            shutil.rmtree(damaged)
        building.rename(folder)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def _build(folder: Path, corpus: Corpus, data: Data, vocab: Vocab, progress: Progress) -> None:
    validation = list(_read(corpus.documents("validation"), "reading validation documents", progress))
    leaks = Leaks(corpus, validation)
    training = leaks.separate(corpus.documents("train"))

    sample = list(_first_bytes(_read(training, "reading training documents", progress), TRAINING_BYTES))
    progress("training the tokenizer", 0.1)
    tokenizer = train_tokenizer((document.text for document in sample), vocab)
    (folder / "tokenizer.json").write_text(tokenizer.to_json())
    (folder / "vocabulary.bin").write_bytes(b"".join(tokenizer.vocabulary))
    token_bytes = np.array([len(token) for token in tokenizer.vocabulary], dtype=np.int32)
    np.save(folder / "token_bytes.npy", token_bytes)

    train = _write_split(folder, "train", chain(sample, training), tokenizer, token_bytes, progress)
    held_out = _write_split(folder, "validation", validation, tokenizer, token_bytes, progress)
    languages = sorted({document.lang for document in validation if document.lang})
    indices = [languages.index(document.lang) if document.lang else -1 for document in validation]
    np.save(folder / "validation_language.npy", np.array(indices, dtype=np.int16))
    stream = np.fromfile(folder / "validation.bin", dtype=token_dtype(tokenizer.vocab_size))
    if corpus.has_floor:
        told = [document.story for document in validation if document.story]
        _write_floor(folder, told, stream, tokenizer, token_bytes)

    for file in folder.iterdir():
        _sync(file)
    meta = ShardMeta(
        format_version=FORMAT_VERSION,
        dtype=token_dtype(tokenizer.vocab_size).str,
        vocab_size=tokenizer.vocab_size,
        train=train,
        validation=held_out,
        corpus=data.name,
        fingerprint=corpus.fingerprint,
        provenance=corpus.provenance,
        near_duplicates=leaks.near_duplicates(),
        skills=list(SKILLS) if corpus.has_floor else [],
        languages=languages,
        tokenizer_hash=tokenizer_hash(tokenizer),
        unigram_bpb=_unigram_bits(stream) / held_out.bytes,
        files={file.name: FileSeal.of(file) for file in sorted(folder.iterdir())},
        empty_rows=corpus.empty_rows(),
    )
    write_meta(folder, meta)
    _sync(folder / NAME)


def _read(documents: Documents, message: str, progress: Progress) -> Documents:
    progress(message, 0.0)
    for document in documents:
        progress(message, 0.1 * document.read)
        yield document


def _first_bytes(documents: Documents, limit: int) -> Documents:
    """The first documents, until they have `limit` UTF-8 bytes together."""
    taken = 0
    for document in documents:
        yield document
        taken += len(document.text.encode())
        if taken >= limit:
            return


def _write_split(
    folder: Path,
    split: str,
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    token_bytes: np.ndarray,
    progress: Progress,
) -> SplitCounts:
    """Writes the token stream and its document starts; returns what it holds."""
    dtype = token_dtype(tokenizer.vocab_size)
    starts: list[int] = []
    tokens = text_bytes = 0
    began = time.perf_counter()
    with (folder / f"{split}.bin").open("wb") as file:
        for batch in batches(documents):
            for document, ids in zip(batch, tokenizer.encode([d.text for d in batch]), strict=True):
                size = len(document.text.encode())
                if token_bytes[ids].sum() != size:
                    raise AssertionError(f"the tokenizer isn't lossless on {document.text[:80]!r}")
                file.write(np.array([END_OF_TEXT_ID, *ids], dtype=dtype).tobytes())
                starts.append(tokens)
                tokens += 1 + len(ids)
                text_bytes += size
            rate = text_bytes / 1e6 / (time.perf_counter() - began)
            message = f"{split}: {text_bytes / 1e6:.1f} MB of text read and tokenized, {rate:.1f} MB/s"
            done = batch[-1].read
            progress(message, 0.1 + 0.8 * done if split == "train" else 0.9 + 0.1 * done)
        file.write(np.array([END_OF_TEXT_ID], dtype=dtype).tobytes())
    np.save(folder / f"{split}_documents.npy", np.array(starts, dtype=np.int64))
    return SplitCounts(len(starts), tokens + 1, text_bytes)


def _write_floor(
    folder: Path, told: list[Story], stream: np.ndarray, tokenizer: Tokenizer, token_bytes: np.ndarray
) -> None:
    """What each word of the validation stream costs at best, which skill it tests, and the forced choices."""
    starts = np.load(folder / "validation_documents.npy")
    floor, skill = np.full(len(stream), np.nan), np.full(len(stream), NO_SKILL, dtype=np.uint8)
    choices: list[tuple[int, int, int, int, int]] = []
    others: list[int] = []
    for story, start, end in zip(told, starts, [*starts[1:], len(stream) - 1], strict=True):
        inside = slice(start + 1, end)
        ends = np.cumsum(token_bytes[stream[inside]])
        floor[inside], skill[inside] = word_floor(story, ends)
        encoded = tokenizer.encode([text for c in story.choices for text in (c.truth, c.other)])
        for choice, truth, other in zip(story.choices, encoded[::2], encoded[1::2], strict=True):
            position = int(start + 1 + np.searchsorted(ends, choice.start, side="right"))
            assert stream[position : position + len(truth)].tolist() == truth, choice
            choices.append((position, choice.skill, len(truth), len(others), len(other)))
            others += other
    np.save(folder / "validation_floor.npy", floor)
    np.save(folder / "validation_skill.npy", skill)
    np.save(folder / "choices.npy", np.array(choices, dtype=np.int64).reshape(-1, 5))
    np.save(folder / "choice_tokens.npy", np.array(others, dtype=stream.dtype))


def word_floor(story: Story, token_ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per token, the surprisal in nats of the word that ends with it (NaN: none does), and the skill of
    its word.

    token_ends: the byte offsets in the story where its tokens end. No token spans two words.
    """
    ends = np.array([word.end for word in story.words])
    word = np.searchsorted(ends, token_ends)
    floor = np.full(len(token_ends), np.nan)
    last = ends[word] == token_ends
    floor[last] = np.array([w.bits for w in story.words])[word[last]] * NATS_PER_BIT
    assert last.sum() == len(ends), "a token spans two words"
    return floor, np.array([w.skill for w in story.words], dtype=np.uint8)[word]


def _unigram_bits(stream: np.ndarray) -> float:
    """What the stream's predicted tokens cost, in bits, under their own unigram distribution."""
    counts = np.bincount(stream[1:])
    counts = counts[counts > 0]
    return float(-(counts * np.log2(counts / counts.sum())).sum())


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
