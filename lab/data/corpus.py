"""Which documents are trained on, and which are held out? Stories, TinyStories, or the user's own text.

A corpus yields the `Document`s of its splits "train" and "validation". Its fingerprint is a hash of
content: of the recipe of generated stories, of the bytes of text files, of the pinned revision of a
download. Whatever is wrong with a file raises ConfigError with its line.
"""

import functools
import hashlib
import heapq
import http.client
import json
import math
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lab.config.schema import Data
from lab.config.strict import ConfigError
from lab.data import near_duplicates, text_files
from lab.data.readers import FORMATS, TXT_VERSION, FileDocument, kind, read_documents
from lab.data.shard_meta import file_sha256
from lab.data.stories import generator as stories
from lab.data.stories import tellers
from lab.data.stories.generator import Story

HUB_NAME = "roneneldan/TinyStories"
HUB_REVISION = "f54c09fd23315a6f9c86f9dc80f725de7d8f9c64"
REACH_SECONDS = 1.2
MOST_OPEN = 100  # files
BATCH_DOCUMENTS, BATCH_CHARACTERS = 500, 1_000_000


class Document(NamedTuple):
    """place: file and line for messages; lang: of the record, where it says; story: of a generated
    validation document.

    read: the share of the split that has been read with this document, 0 where that is unknown.
    """

    place: str
    text: str
    lang: str | None = None
    story: Story | None = None
    read: float = 0.0


Documents = Iterator[Document]


@dataclass(frozen=True)
class Corpus:
    """documents(split) yields the documents of "train" or "validation".

    has_floor: the documents are stories of known probability. drops_near_duplicates: training documents
    that nearly equal a validation document are left out, since the user didn't choose the split; otherwise
    they are counted. empty_rows: how many rows without text were passed over, once all documents are read.
    """

    fingerprint: str
    provenance: str
    has_floor: bool
    drops_near_duplicates: bool
    documents: Callable[[str], Documents]
    empty_rows: Callable[[], int] = lambda: 0


def digest(text: str) -> bytes:
    """SHA-256 of a document after normalising white space: equal digests are the same document."""
    return hashlib.sha256(" ".join(text.split()).encode()).digest()


def batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in handfuls of at most 500, and of about a million characters where they are long."""
    batch: list[Document] = []
    characters = 0
    for document in documents:
        batch.append(document)
        characters += len(document.text)
        if len(batch) == BATCH_DOCUMENTS or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def open_corpus(data: Data) -> Corpus:
    """The corpus that `data` names. Hashes files, or looks for the network. Raises ConfigError."""
    if data.name == "stories":
        return _stories(data)
    if data.name == "tinystories" and data.path is None:
        return _hub()
    return _files(data)


def _stories(data: Data) -> Corpus:
    problems = [
        f"data.{key} = {value}: needs at least 1 story."
        for key, value in (("stories", data.stories), ("validation_stories", data.validation_stories))
        if value < 1
    ]
    if problems:
        raise ConfigError(problems)
    grammar = data.grammar
    assert grammar is not None  # runs of the first recipe are read, and never prepared again

    def documents(split: str) -> Documents:
        count = data.stories if split == "train" else data.validation_stories
        if split == "train":
            told = tellers.texts(grammar, seed=data.seed, split=split, count=count)
            for number, text in enumerate(told):
                yield Document(f"{split} story {number}", text, read=(number + 1) / count)
            return
        held_out = stories.generate(grammar, seed=data.seed, split=split, count=count)
        for number, story in enumerate(held_out):
            yield Document(f"{split} story {number}", story.text, story=story, read=(number + 1) / count)

    fingerprint = stories.recipe_fingerprint(
        grammar, seed=data.seed, stories=data.stories, validation_stories=data.validation_stories
    )
    return Corpus(fingerprint, f"generated, recipe {stories.RECIPE_VERSION}", True, False, documents)


def _files(data: Data) -> Corpus:
    files = text_files.find(data)
    training, validation = files.training, files.validation
    contents = [(_reading(path), _hash(path)) for path in (*training, *validation)]
    chosen = None if validation else [data.validation_fraction, near_duplicates.VERSION]
    order = ["together"] if len(training) > 1 else []
    null = ["without null"] if data.skip_null else []
    recipe = json.dumps([contents, len(training), data.text_field, chosen, *order, *null])
    empty: dict[str, int] = {}

    def documents(split: str) -> Documents:
        if validation:
            return read(training if split == "train" else validation, split)
        return _held_out(read(training, "both"), split, data.validation_fraction)

    def read(paths: Sequence[Path], key: str) -> Documents:
        empty[key] = kept = 0

        def pass_over() -> None:
            empty[key] += 1

        rows = functools.partial(
            read_documents, field=data.text_field, skip_null=data.skip_null, empty=pass_over
        )
        for document in _together(paths, rows):
            kept += 1
            yield document
        if not kept:
            raise ConfigError(f"data.path = {data.path}: 0 documents with text. Give a file with text.")

    names = text_files.names_of([path.name for path in (*training, *validation)])
    fingerprint = hashlib.sha256(recipe.encode()).hexdigest()
    return Corpus(
        fingerprint, f"files {names}", False, not validation, documents, lambda: sum(empty.values())
    )


def _reading(path: Path) -> str:
    """How a file is read, for its fingerprint: its kind, and the version of that where it has changed."""
    return f"{kind(path)} {TXT_VERSION}" if kind(path).startswith(".txt") else kind(path)


def _hash(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError as error:
        raise ConfigError(f"data.path = {path}: can't be read ({error.strerror}).") from error


def _together(paths: Sequence[Path], rows: Callable[[Path], Iterator[FileDocument]]) -> Documents:
    """The documents of all files, which advance together: the first ones are a fair sample of the files."""
    for first in range(0, len(paths), MOST_OPEN):
        files = [_documents(path, rows(path)) for path in paths[first : first + MOST_OPEN]]
        for document in heapq.merge(*files, key=lambda document: document.read):
            yield document._replace(read=min(1.0, (first + len(files) * document.read) / len(paths)))


def _documents(path: Path, rows: Iterator[FileDocument]) -> Documents:
    size = path.stat().st_size
    for row in rows:
        yield Document(row.place, row.text, row.lang, read=row.position / size)


def _held_out(documents: Documents, split: str, fraction: float) -> Documents:
    """A document goes to the side that its digest says, so duplicates land on one side."""
    count, smallest, largest = 0, 1.0, 0.0
    empty = True
    for document in documents:
        position = int.from_bytes(digest(document.text)[:6]) / 2**48
        count, smallest, largest = count + 1, min(smallest, position), max(largest, position)
        if (position < fraction) == (split == "validation"):
            empty = False
            yield document
    if empty and count and smallest == largest:
        raise ConfigError(
            "data.path: holds only 1 different document, and both splits need one. Separate documents by "
            "lines of <|endoftext|> or by blank lines, or give data.validation_path."
        )
    if empty and count:
        bound = (
            f"of {math.floor(smallest * 1e4 + 1) / 1e4} or more"
            if split == "validation"
            else f"of {math.floor(largest * 1e4) / 1e4} or less"
        )
        raise ConfigError(
            f"data.validation_fraction = {fraction}: the {split} split of these {count} documents would be "
            f"empty. Use a fraction {bound}, or give data.validation_path."
        )


def _hub() -> Corpus:
    """TinyStories from the Hugging Face Hub, or from its local cache when there is no network."""
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON")
    if not _hub_cache().is_dir():
        if offline or not _hub_reachable():
            raise ConfigError(_no_hub())
    elif offline or not _hub_reachable():
        # `datasets` reads this at import; without it an unreachable Hub costs 24 s of retries.
        os.environ["HF_HUB_OFFLINE"] = "1"

    def read(split: str) -> Documents:
        import datasets  # 2 s of import that only this corpus needs

        try:
            rows = datasets.load_dataset(HUB_NAME, revision=HUB_REVISION, split=split)
        except ConnectionError as error:
            raise ConfigError(_no_hub()) from error
        for number, row in enumerate(rows):
            if row["text"].strip():
                place = f"{HUB_NAME} {split} row {number}"
                yield Document(place, row["text"], read=(number + 1) / len(rows))

    def documents(split: str) -> Documents:
        if split == "validation":
            yield from read(split)
            return
        # Some published validation stories are in the published training split as well.
        validation = {digest(document.text) for document in read("validation")}
        yield from (document for document in read(split) if digest(document.text) not in validation)

    recipe = f"{HUB_NAME}@{HUB_REVISION} {near_duplicates.VERSION}"
    fingerprint = hashlib.sha256(recipe.encode()).hexdigest()
    return Corpus(fingerprint, f"{HUB_NAME} at {HUB_REVISION}", False, True, documents)


def _no_hub() -> str:
    return (
        f"data.path = null: data=tinystories downloads {HUB_NAME}, and the Hub can't be reached. "
        "Use data=tinystories data.path=FOLDER with a folder that holds train.* and validation.* "
        f"({FORMATS}), or data=stories, which needs no download."
    )


def _hub_cache() -> Path:
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    return Path(os.environ.get("HF_DATASETS_CACHE", home / "datasets")) / "roneneldan___tiny_stories"


def _hub_reachable() -> bool:
    """Asked in a thread that may be left behind: name resolution has no time limit of its own."""
    answered = threading.Event()

    def ask() -> None:
        endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
        try:
            urllib.request.urlopen(
                urllib.request.Request(endpoint, method="HEAD"), timeout=REACH_SECONDS
            ).close()
        except urllib.error.HTTPError:
            answered.set()
        except (OSError, http.client.HTTPException):
            return
        answered.set()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(REACH_SECONDS)
    return answered.is_set()
