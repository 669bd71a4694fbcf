"""Files: which documents they hold, and what is said about the line that can't be read."""

import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from lab.config import ConfigError
from lab.data.files import LONGEST, read_documents

SHARED = Path(__file__).parents[1].parent / "shared" / "data"


def jsonl(*texts: str) -> str:
    return "".join(json.dumps({"text": text, "id": i}) + "\n" for i, text in enumerate(texts))


def texts(path: Path, field: str = "text") -> list[str]:
    return [row.text for row in read_documents(path, field)]


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


@pytest.mark.parametrize("line", ["[" * 100_000, "1" * 5_000], ids=["deep", "long"])
def test_json_that_python_cannot_hold_is_named(tmp_path, line):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"text": "good"}\n' + line + "\n")
    with pytest.raises(ConfigError, match="bad.jsonl:2"):
        list(read_documents(path, "text"))
