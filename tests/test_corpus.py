"""Corpora: which documents a file holds, where they go, and what is said about files that can't be used."""

import gzip
import json
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow
import pyarrow.parquet
import pytest

from lab.config import ConfigError, Data
from lab.data.corpus import Corpus, digest, open_corpus, refuse_shared
from lab.data.files import read_documents
from lab.data.stories import Story

TEXT = Data("text", None, None, 0.5, "text", 0, 0, 0)
SHARED = Path(__file__).parents[1].parent / "shared" / "data"


def jsonl(*texts: str) -> str:
    return "".join(json.dumps({"text": text, "id": i}) + "\n" for i, text in enumerate(texts))


def open_text(path: Path, **changes: object) -> Corpus:
    return open_corpus(replace(TEXT, path=str(path), **changes))


def texts(path: Path, field: str = "text") -> list[str]:
    return [text for _, text in read_documents(path, field)]


def both(corpus: Corpus) -> tuple[list[str], list[Story | str]]:
    return list(corpus.train()), list(corpus.validation())


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_jsonl_keeps_texts_as_they_are(tmp_path: Path, suffix: str) -> None:
    content = jsonl("one\n two ", "naïve 狐", "  \n", "four") + "\n"
    path = tmp_path / f"a{suffix}"
    path.write_bytes(gzip.compress(content.encode()) if suffix.endswith("gz") else content.encode())
    assert list(read_documents(path, "text")) == [
        (f"{path}:1", "one\n two "),
        (f"{path}:2", "naïve 狐"),
        (f"{path}:4", "four"),
    ]


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"story": ["one", " ", "three"], "n": [1, 2, 3]}), path)
    assert list(read_documents(path, "story")) == [(f"{path}:1", "one"), (f"{path}:3", "three")]


def test_txt_is_cut_at_separator_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(
        b"\xef\xbb\xbfone\n\nstill one\n<|endoftext|>\r\n  two <|endoftext|> inside\r\n<|endoftext|>\n\n"
    )
    assert list(read_documents(path, "text")) == [
        (f"{path}:1", "one\n\nstill one"),
        (f"{path}:5", "  two <|endoftext|> inside"),
    ]


def test_txt_without_separators_is_cut_at_blank_lines_after_4000_characters(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    paragraph = "x" * 999 + "\n"
    path.write_text("\n".join([paragraph] * 10))
    documents = texts(path)
    # Four paragraphs and the three blank lines between them are the first to reach 4,000 characters.
    assert [document.count("x") for document in documents] == [999 * 4, 999 * 4, 999 * 2]
    assert documents[0] == "\n".join([paragraph] * 4).strip()


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
    corpus = open_corpus(Data("stories", None, None, 0.05, "text", stories=3, validation_stories=2, seed=0))
    train, validation = both(corpus)
    assert corpus.has_floor
    assert len(train) == 3 and all(isinstance(text, str) for text in train)
    assert len(validation) == 2 and all(isinstance(story, Story) for story in validation)


@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared data files")
def test_counts_of_real_files() -> None:
    """Documents and bytes as the files' own README states them."""
    sample = texts(SHARED / "tinystories" / "sample.txt")
    assert len(sample) == 120
    train = texts(SHARED / "multilingual" / "tinystories_ru_validation.jsonl.gz")
    assert (len(train), sum(len(text.encode()) for text in train)) == (400, 537_962)


def cut_gzip(path: Path) -> None:
    path.write_bytes(gzip.compress(jsonl(*map(str, range(999))).encode())[:-20])


def cut_parquet(path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"] * 99}), path)
    path.write_bytes(path.read_bytes()[:-9])


def number_parquet(path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"text": [1, 2]}), path)


BAD_FILES: list[tuple[str, bytes | Callable[[Path], None], str]] = [
    ("a.txt", b"", r"data.path = \S+a.txt: 0 documents with text \(read 0"),
    ("a.jsonl", jsonl(" ", "\n").encode(), r"0 documents with text \(read 2, all empty\)"),
    (
        "a.jsonl",
        b'{"text": "a"}\n{"text": "unclosed\n',
        r"a.jsonl:2: not valid JSON \(column 10: Unterminated string",
    ),
    ("a.jsonl", b'["a"]\n', r"a.jsonl:1: not a JSON object"),
    ("a.jsonl", b'{"txt": "a", "id": 1}\n', r"data.text_field = text \(\S+:1\): no such field.* txt, id"),
    ("a.jsonl", b'{"text": 3}\n', r"data.text_field = text \(\S+:1\): holds no string"),
    ("a.jsonl", b'{"text": "\\ud800"}\n', r"a.jsonl:1: half of a surrogate pair"),
    ("a.txt", b"fine\ncaf\xe9\n", r"a.txt:2: not UTF-8 \(byte 0xE9\)"),
    ("a.txt", "UTF-16".encode("utf-16"), r"a.txt:1: NUL bytes"),
    ("a.txt", bytes(range(256)), r"a.txt:1: NUL bytes"),
    ("a.jsonl.gz", b"not gzip", r"a.jsonl.gz: can't be read after line 0"),
    ("a.jsonl.gz", cut_gzip, r"a.jsonl.gz: can't be read after line \d+"),
    ("a.parquet", b"", r"can't be read as parquet \(.*0 bytes\). Copy it again"),
    ("a.parquet", cut_parquet, r"can't be read as parquet"),
    ("a.parquet", number_parquet, r"data.text_field = text \(\S+:1\): this row holds no string"),
    ("a.docx", b"x", r"data.path = \S+a.docx: unknown kind of file. Convert it to .txt"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES, ids=[case[2][:40] for case in BAD_FILES])
def test_bad_files(tmp_path: Path, name: str, content: bytes | Callable[[Path], None], message: str) -> None:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)
    with pytest.raises(ConfigError, match=message):
        both(open_text(path))


def test_a_missing_parquet_column_names_those_there(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"story": ["a"], "n": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match=r"no such column. Fields seen: story, n"):
        both(open_text(tmp_path / "a.parquet"))


def test_a_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(jsonl("a"))
    with pytest.raises(ConfigError, match=r"trian.jsonl: no such file. In that folder: train.jsonl"):
        open_text(tmp_path / "trian.jsonl")
    with pytest.raises(ConfigError, match="Nor is there such a folder"):
        open_text(tmp_path / "nowhere" / "a.txt")


def test_a_path_is_required() -> None:
    with pytest.raises(ConfigError, match="data.path = null: data=text needs a file or folder"):
        open_corpus(TEXT)


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no file in this folder ends in .txt"):
        open_text(tmp_path)
    (tmp_path / "validation.txt").write_text("a")
    with pytest.raises(ConfigError, match=r"holds validation.\* only"):
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


def test_shared_documents_are_counted_and_the_first_is_named() -> None:
    validation = {digest(text): f"v:{i}" for i, text in enumerate(["a b", "c", "d"])}
    training = [("t:0", "x"), ("t:1", "c"), ("t:2", " a\n b"), ("t:3", "c ")]
    with pytest.raises(ConfigError, match=r"2 of 3 validation documents .*first: v:1, the same as t:1\)"):
        list(refuse_shared(iter(training), validation))
    assert list(refuse_shared(iter(training[:1]), validation)) == training[:1]


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


def test_one_different_document_cannot_be_split(tmp_path):
    path = tmp_path / "one.jsonl"
    path.write_text('{"text": "the same"}\n' * 50)
    corpus = open_corpus(replace(TEXT, path=str(path)))
    with pytest.raises(ConfigError, match="holds only 1 different document"):
        list(corpus.documents("train")), list(corpus.documents("validation"))


@pytest.mark.parametrize("line", ["[" * 100_000, "1" * 5_000], ids=["deep", "long"])
def test_json_that_python_cannot_hold_is_named(tmp_path, line):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"text": "good"}\n' + line + "\n")
    with pytest.raises(ConfigError, match="bad.jsonl:2"):
        list(read_documents(path, "text"))
