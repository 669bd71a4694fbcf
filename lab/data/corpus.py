"""Which documents are trained on, and which are held out? Stories, TinyStories, or the user's own text.

A corpus yields the `Document`s of its splits "train" and "validation". Its fingerprint is a hash of content: of the recipe of generated stories, of the bytes of text
files, of the pinned revision of a download. Whatever is wrong with a file raises ConfigError with its line.
"""

import hashlib
import http.client
import json
import math
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lab.config import ConfigError, Data
from lab.data import stories
from lab.data.files import SUFFIXES, kind, read_documents
from lab.data.shards import file_sha256
from lab.data.stories import Story

HUB_NAME = "roneneldan/TinyStories"
HUB_REVISION = "f54c09fd23315a6f9c86f9dc80f725de7d8f9c64"
REACH_SECONDS = 1.2


class Document(NamedTuple):
    """place: file and line for messages; lang: of the record, where it says; story: where the text was generated."""

    place: str
    text: str
    lang: str | None = None
    story: Story | None = None


Documents = Iterator[Document]


@dataclass(frozen=True)
class Corpus:
    """documents(split) yields the documents of "train" or "validation". has_floor: each of them has its story."""

    fingerprint: str
    provenance: str
    has_floor: bool
    documents: Callable[[str], Documents]


def digest(text: str) -> bytes:
    """SHA-256 of a document after normalising white space: equal digests are the same document."""
    return hashlib.sha256(" ".join(text.split()).encode()).digest()


def open_corpus(data: Data) -> Corpus:
    """The corpus that `data` names. Hashes files, or looks for the network. Raises ConfigError."""
    if data.name == "stories":
        return _stories(data)
    if data.name == "tinystories" and data.path is None:
        return _hub()
    return _files(data)


def refuse_shared(training: Documents, validation: dict[bytes, str]) -> Documents:
    """Passes training documents through; raises ConfigError at their end if some are validation documents.

    `validation` maps the digest of each validation document to its place.
    """
    shared: dict[bytes, str] = {}
    for document in training:
        key = digest(document.text)
        if key in validation:
            shared.setdefault(key, document.place)
        yield document
    if shared:
        key, place = next(iter(shared.items()))
        raise ConfigError(
            f"data.validation_path: {len(shared)} of {len(validation)} validation documents are in the "
            f"training set too (first: {validation[key]}, the same as {place}). Remove them from one of the two."
        )


def _stories(data: Data) -> Corpus:
    problems = [
        f"data.{key} = {value}: needs at least 1 story."
        for key, value in (("stories", data.stories), ("validation_stories", data.validation_stories))
        if value < 1
    ]
    if problems:
        raise ConfigError(problems)

    def documents(split: str) -> Documents:
        count = data.stories if split == "train" else data.validation_stories
        told = stories.generate(data.grammar, seed=data.seed, split=split, count=count)
        for number, story in enumerate(told):
            yield Document(f"{split} story {number}", story.text, story=story)

    fingerprint = stories.recipe_fingerprint(
        data.grammar, seed=data.seed, stories=data.stories, validation_stories=data.validation_stories
    )
    return Corpus(fingerprint, f"generated, recipe {stories.RECIPE_VERSION}", True, documents)


def _files(data: Data) -> Corpus:
    training, validation = _split_files(data)
    contents = [(kind(path), file_sha256(path)) for path in (*training, *validation)]
    held_out = None if validation else data.validation_fraction
    recipe = json.dumps([contents, len(training), data.text_field, held_out])

    def documents(split: str) -> Documents:
        if validation:
            return _read_all(training if split == "train" else validation, data.text_field)
        return _held_out(_read_all(training, data.text_field), split, data.validation_fraction)

    names = ", ".join(path.name for path in (*training, *validation))
    return Corpus(hashlib.sha256(recipe.encode()).hexdigest(), f"files {names}", False, documents)


def _read_all(paths: Iterable[Path], field: str) -> Documents:
    for path in paths:
        yield from (Document(place, text, lang) for place, text, lang in read_documents(path, field))


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
            "data.path: holds only 1 different document, and both splits need one. Separate documents by lines of "
            "<|endoftext|> or by blank lines, or give data.validation_path."
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


def _split_files(data: Data) -> tuple[list[Path], list[Path]]:
    """The training and the validation files; no validation files means: hold out. Raises ConfigError."""
    if data.path is None:
        raise ConfigError(f"data.path = null: data={data.name} needs a file or folder. Set data.path.")
    folder = Path(data.path).expanduser()
    training = _text_files(folder, "data.path")
    validation = []
    if folder.is_dir():
        validation = [path for path in training if _stem(path) == "validation"]
        others = [path for path in training if path not in validation]
        training = [path for path in others if _stem(path) == "train"] or others
        if not training:
            raise ConfigError(f"data.path = {folder}: holds validation.* only. Add train.* to the folder.")
    if data.validation_path is not None:
        validation = _text_files(Path(data.validation_path).expanduser(), "data.validation_path")
    for path in training:
        if any(path.samefile(other) for other in validation):
            raise ConfigError(f"data.validation_path = {path}: same file for both splits. Give two files.")
    return training, validation


def _stem(path: Path) -> str:
    """train for train.jsonl.gz and for train-00000-of-00004.parquet."""
    return path.name.split(".")[0].split("-")[0]


def _text_files(path: Path, key: str) -> list[Path]:
    """The file, or the readable files directly in the folder, by name. Raises ConfigError."""
    if path.is_dir():
        found = [
            p for p in sorted(path.iterdir()) if p.name.endswith(SUFFIXES) and not p.name.startswith(".")
        ]
        if not found:
            raise ConfigError(f"{key} = {path}: no file in this folder ends in {', '.join(SUFFIXES)}.")
        return found
    if not path.exists():
        siblings = sorted(p.name for p in path.parent.iterdir())[:8] if path.parent.is_dir() else []
        there = f"In that folder: {', '.join(siblings)}." if siblings else "Nor is there such a folder."
        raise ConfigError(f"{key} = {path}: no such file. {there}")
    if not path.is_file():
        raise ConfigError(f"{key} = {path}: is no regular file. Copy its content to one.")
    if not path.name.endswith(SUFFIXES):
        raise ConfigError(f"{key} = {path}: unknown kind of file. Convert it to {', '.join(SUFFIXES)}.")
    return [path]


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
                yield Document(f"{HUB_NAME} {split} row {number}", row["text"])

    def documents(split: str) -> Documents:
        if split == "validation":
            yield from read(split)
            return
        # Some published validation stories are in the published training split as well.
        validation = {digest(document.text) for document in read("validation")}
        yield from (document for document in read(split) if digest(document.text) not in validation)

    fingerprint = hashlib.sha256(f"{HUB_NAME}@{HUB_REVISION}".encode()).hexdigest()
    return Corpus(fingerprint, f"{HUB_NAME} at {HUB_REVISION}", False, documents)


def _no_hub() -> str:
    return (
        f"data.path = null: data=tinystories downloads {HUB_NAME}, and the Hub can't be reached. "
        "Use data=tinystories data.path=FOLDER with a folder that holds train.* and validation.* "
        f"({', '.join(SUFFIXES)}), or data=stories, which needs no download."
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
