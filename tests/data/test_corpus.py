"""Corpora: which documents go to which split, and what is said about files that can't be used."""

import json
import socket
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.config.schema import Data
from lab.config.strict import ConfigError
from lab.data.corpus import Corpus, Document, batches, open_corpus
from lab.data.stories.generator import generate
from tests import paths
from tests.tiny_run import GRAMMAR

TEXT = Data("text", None, None, 0.5, "text", 0, 0, 0, GRAMMAR)
SHARED = paths.SHARED / "data"


def jsonl(*texts: str) -> str:
    return "".join(json.dumps({"text": text, "id": i}) + "\n" for i, text in enumerate(texts))


def open_text(path: Path, **changes: object) -> Corpus:
    return open_corpus(replace(TEXT, path=str(path), **changes))


def both(corpus: Corpus) -> tuple[list[str], list[str]]:
    train, validation = ([d.text for d in corpus.documents(split)] for split in ("train", "validation"))
    return train, validation


def test_a_folder_with_train_and_validation(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(jsonl("a", "b"))
    (tmp_path / "validation.txt").write_text("c")
    (tmp_path / "test.jsonl").write_text(jsonl("not read"))
    (tmp_path / "README.md").write_text("not read")
    assert both(open_text(tmp_path)) == (["a", "b"], ["c"])
    assert both(open_corpus(replace(TEXT, name="tinystories", path=str(tmp_path)))) == (["a", "b"], ["c"])


def test_a_folder_without_train_files_is_read_whole_in_order(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "validation-00000-of-00001.jsonl"):
        (tmp_path / name).write_text(jsonl(f"from {name[0]}"))
    assert both(open_text(tmp_path)) == (["from a", "from b"], ["from v"])


def test_an_own_validation_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    corpus = open_text(tmp_path / "a.txt", validation_path=str(tmp_path / "b.txt"))
    assert both(corpus) == (["a"], ["b"])


def test_held_out_documents_are_chosen_by_content(tmp_path: Path) -> None:
    documents = [f"document {i}" for i in range(1000)]
    for name, order in (("a", 1), ("b", -1)):
        (tmp_path / f"{name}.jsonl").write_text(jsonl(*documents[::order]))
    train, validation = both(open_text(tmp_path / "a.jsonl", validation_fraction=0.2))
    assert sorted(train + validation) == sorted(documents)
    # Binomial(1000, 0.2): six standard deviations are 76.
    assert abs(len(validation) - 200) < 76
    assert set(both(open_text(tmp_path / "b.jsonl", validation_fraction=0.2))[1]) == set(validation)
    smaller = both(open_text(tmp_path / "a.jsonl", validation_fraction=0.1))[1]
    assert set(smaller) < set(validation)


def test_stories_have_a_floor() -> None:
    data = Data("stories", None, None, 0.05, "text", stories=3, validation_stories=2, seed=0, grammar=GRAMMAR)
    corpus = open_corpus(data)
    train, validation = (list(corpus.documents(split)) for split in ("train", "validation"))
    assert corpus.has_floor
    assert [document.text for document in train] == [
        story.text for story in generate(GRAMMAR, seed=0, split="train", count=3)
    ]
    assert [document.story for document in validation] == list(
        generate(GRAMMAR, seed=0, split="validation", count=2)
    )
    assert [document.read for document in train] == [1 / 3, 2 / 3, 1]


def test_validation_files_of_a_folder_by_their_names(tmp_path: Path) -> None:
    for name in (
        "TinyStoriesV2-GPT4-train.txt",
        "TinyStoriesV2-GPT4-valid.txt",
        "ru_train-00000-of-00002.txt",
        "val.txt",
    ):
        (tmp_path / name).write_text(name)
    train, validation = both(open_text(tmp_path))
    assert train == ["TinyStoriesV2-GPT4-train.txt", "ru_train-00000-of-00002.txt"]
    assert validation == ["TinyStoriesV2-GPT4-valid.txt", "val.txt"]


def test_the_files_of_a_folder_advance_together(tmp_path: Path) -> None:
    (tmp_path / "a_train.jsonl").write_text(jsonl(*"123456"))
    (tmp_path / "b_train.jsonl").write_text(jsonl(*"xyz"))
    (tmp_path / "validation.txt").write_text("v")
    documents = list(open_text(tmp_path).documents("train"))
    assert "".join(document.text for document in documents) == "12x34y56z"
    assert [document.read for document in documents] == pytest.approx(
        [i / 6 for i in (1, 2, 2, 3, 4, 4, 5, 6, 6)]
    )


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "a.txt").write_text("a")
    monkeypatch.setattr("lab.data.corpus.file_sha256", denied)
    with pytest.raises(ConfigError, match=r"data.path = \S+/a.txt: can't be read \(Permission denied\)."):
        open_text(tmp_path / "a.txt")


def test_batches_are_bounded_by_documents_and_by_characters() -> None:
    documents = [Document("", "x" * size) for size in [1] * 501 + [600_000] * 3]
    assert [len(batch) for batch in batches(documents)] == [500, 3, 1]
    assert list(batches([])) == []


@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared data files")
def test_the_languages_of_real_files() -> None:
    """As their README states them: six chapters in each of seven languages; stories in 143 languages."""
    corpus = open_text(SHARED / "multilingual")
    validation = list(corpus.documents("validation"))
    assert len(validation) == 453 + 400 + 1482 + 42
    parallel = Counter(d.lang for d in validation if "parallel" in d.place)
    assert parallel == dict.fromkeys(("en", "zh", "es", "de", "fr", "da", "cs"), 6)
    assert {d.lang for d in validation if "tatoeba" in d.place} == {None}
    assert {d.lang for d in validation if "tinystories_ru" in d.place} == {"ru"}
    training = list(corpus.documents("train"))
    of_both = [d for d in (*training, *validation) if "/stories_" in d.place]
    assert len({d.lang for d in of_both}) == 143
    bytes_of = Counter[str]()
    for document in training:
        if "/stories_" in document.place:
            bytes_of[document.lang or ""] += len(document.text.encode())
    assert [lang for lang, _ in bytes_of.most_common(5)] == ["en", "hi", "te", "kn", "mr"]


def test_a_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(jsonl("a"))
    with pytest.raises(ConfigError, match=r"trian.jsonl: no such file. In that folder: train.jsonl"):
        open_text(tmp_path / "trian.jsonl")
    with pytest.raises(ConfigError, match="Nor is there such a folder"):
        open_text(tmp_path / "nowhere" / "a.txt")


def test_a_path_that_cannot_be_is_named() -> None:
    long = "a" * 300 + ".txt"
    with pytest.raises(ConfigError, match=rf"data.path = {long}: can't be read \(File name too long\)."):
        open_text(Path(long))
    with pytest.raises(
        ConfigError, match=r"data.path = ~nobody-here/x: can't be read \(Could not determine home"
    ):
        open_text(Path("~nobody-here/x"))


def test_an_unknown_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_text("a")
    with pytest.raises(ConfigError, match=r"data.path = \S+a.docx: unknown kind of file. Convert it to .txt"):
        open_text(tmp_path / "a.docx")


def test_a_path_is_required() -> None:
    with pytest.raises(ConfigError, match="data.path = null: data=text needs a file or folder"):
        open_corpus(TEXT)


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no file in this folder ends in .txt"):
        open_text(tmp_path)
    (tmp_path / "validation.txt").write_text("a")
    with pytest.raises(ConfigError, match=r"holds validation files only"):
        open_text(tmp_path)


def test_one_file_for_both_splits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "link.txt").symlink_to("a.txt")
    with pytest.raises(ConfigError, match=r"data.validation_path = \S+a.txt: same file for both splits"):
        open_text(tmp_path / "a.txt", validation_path=str(tmp_path / "link.txt"))


@pytest.mark.parametrize(("fraction", "split"), [(0.0001, "validation"), (0.9999, "train")])
def test_an_empty_split_names_a_fraction_that_works(tmp_path: Path, fraction: float, split: str) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(*map(str, range(40))))
    with pytest.raises(ConfigError, match=rf"the {split} split of these 40 documents") as raised:
        both(open_text(tmp_path / "a.jsonl", validation_fraction=fraction))
    advised = float(str(raised.value).split("fraction of ")[1].split()[0])
    train, validation = both(open_text(tmp_path / "a.jsonl", validation_fraction=advised))
    assert {"train": train, "validation": validation}[split]


def test_stories_need_a_number() -> None:
    with pytest.raises(ConfigError) as raised:
        open_corpus(replace(TEXT, name="stories"))
    assert [problem.split(":")[0] for problem in raised.value.problems] == [
        "data.stories = 0",
        "data.validation_stories = 0",
    ]


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    for name in ("HF_DATASETS_CACHE", "HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def silent_server() -> str:
    """Accepts connections and never answers: what a captive network does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_tinystories_without_network_names_the_two_ways_on(
    no_cache: None, silent_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for endpoint in ("http://127.0.0.1:9", silent_server):
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        with pytest.raises(ConfigError, match=r"data=tinystories data.path=FOLDER .* or data=stories"):
            open_corpus(replace(TEXT, name="tinystories"))


def test_tinystories_from_the_hub(no_cache: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Cached data are read offline; training rows that are validation stories too are left out."""
    splits = {"train": ["a", "shared  one", " "], "validation": ["shared one", "v"]}

    def load_dataset(name: str, *, revision: str, split: str) -> list[dict[str, str]]:
        assert name == "roneneldan/TinyStories" and len(revision) == 40
        return [{"text": text} for text in splits[split]]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "datasets" / "roneneldan___tiny_stories").mkdir(parents=True)
    assert both(open_corpus(replace(TEXT, name="tinystories"))) == (["a"], ["shared one", "v"])


def test_fingerprints_follow_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("a")
    first = open_text(tmp_path / "a.txt").fingerprint
    assert open_text(tmp_path / "b.txt").fingerprint == first
    assert open_text(tmp_path / "a.txt", validation_fraction=0.1).fingerprint != first
    assert open_text(tmp_path / "a.txt", text_field="other").fingerprint != first
    (tmp_path / "a.jsonl").write_text("a")
    assert open_text(tmp_path / "a.jsonl").fingerprint != first
    (tmp_path / "b.txt").write_text("b")
    assert open_text(tmp_path / "b.txt").fingerprint != first


def test_one_different_document_cannot_be_split(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text('{"text": "the same"}\n' * 50)
    corpus = open_corpus(replace(TEXT, path=str(path)))
    with pytest.raises(ConfigError, match="holds only 1 different document"):
        both(corpus)
