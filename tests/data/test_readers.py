"""Files: which documents they hold, and what is said about the line that can't be read."""

import csv
import gzip
import io
import json
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from lab.config.strict import ConfigError
from lab.data.readers import read_documents
from lab.data.text_lines import LONGEST
from tests import paths

SHARED = paths.SHARED / "data"


def jsonl(*texts: str) -> str:
    return "".join(json.dumps({"text": text, "id": i}) + "\n" for i, text in enumerate(texts))


def texts(path: Path) -> list[str]:
    return [row.text for row in read_documents(path, "text")]


def places(path: Path, field: str = "text") -> list[tuple[str, str]]:
    return [(row.place, row.text) for row in read_documents(path, field)]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_jsonl_keeps_texts_as_they_are(tmp_path: Path, suffix: str) -> None:
    content = jsonl("one\n two ", "naïve 狐", "  \n", "four") + "\n"
    path = tmp_path / f"a{suffix}"
    path.write_bytes(gzip.compress(content.encode()) if suffix.endswith("gz") else content.encode())
    assert places(path) == [
        (f"{path}:1", "one\n two "),
        (f"{path}:2", "naïve 狐"),
        (f"{path}:4", "four"),
    ]


RECORDS = [
    {"text": "one\n two ", "id": 1},
    {"text": 'naïve 狐, "so"', "id": 2},
    {"text": "x" * 240_000, "id": 3},
]


def as_csv(records: list[dict[str, object]]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, ["id", "text"])
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


LAYOUTS = {
    "list.json": json.dumps(RECORDS),
    "laid out.json": json.dumps(RECORDS, indent=2, ensure_ascii=False),
    "lines.JSON": "\n".join(map(json.dumps, RECORDS)) + "\n\n",
    "one after another.json": " ".join(json.dumps(record, indent=1) for record in RECORDS),
    "table.csv": as_csv(RECORDS),
    "lines.jsonl": "\n".join(map(json.dumps, RECORDS)),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("piece", [7, 1 << 18])
@pytest.mark.parametrize("name", LAYOUTS)
def test_records_are_the_same_however_they_are_laid_out(
    tmp_path: Path, name: str, piece: int, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the json and csv modules write them, of a few characters and of 240 KB."""
    monkeypatch.setattr("lab.data.json_values.PIECE", piece)
    content = b"\xef\xbb\xbf" + LAYOUTS[name].encode()
    path = tmp_path / (name + ".gz" if packed else name)
    path.write_bytes(gzip.compress(content) if packed else content)
    assert texts(path) == [record["text"] for record in RECORDS]


def test_a_long_list_is_read_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with path.open("w") as file:
        file.write("[" + ", ".join([json.dumps({"text": "word " * 400})] * 15_000) + "]")
    assert path.stat().st_size > 30_000_000
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_documents(path, "text")) == 15_000
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.parquet"])
def test_null_texts_are_passed_over_and_counted_where_that_is_asked(tmp_path: Path, name: str) -> None:
    path, rows = tmp_path / name, ["one", None, " ", "four"]
    if name == "a.parquet":
        pyarrow.parquet.write_table(pyarrow.table({"text": rows}), path)
    else:
        path.write_text("\n".join(json.dumps({"text": text}) for text in rows))
    with pytest.raises(ConfigError, match=r"data.skip_null=true passes over nulls"):
        texts(path)
    passed = []
    found = read_documents(path, "text", skip_null=True, empty=lambda: passed.append(1))
    assert [row.text for row in found] == ["one", "four"] and len(passed) == 2


@pytest.mark.slow
def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"story": ["one", " ", "three"], "n": [1, 2, 3]}), path)
    assert places(path, "story") == [(f"{path}:1", "one"), (f"{path}:3", "three")]


def test_txt_is_cut_at_separators_on_lines_of_their_own_at_their_ends_and_inside(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(
        b"\xef\xbb\xbfone\n\nstill one\n<|endoftext|>\r\n  two<|endoftext|>\r\n\r\n"
        b"three<|endoftext|>four\n<|endoftext|>five\n\n"
    )
    assert places(path) == [
        (f"{path}:1", "one\n\nstill one"),
        (f"{path}:5", "  two"),
        (f"{path}:6", "three"),
        (f"{path}:7", "four"),
        (f"{path}:8", "five"),
    ]


def test_stories_with_a_mark_at_their_ends_are_as_many_documents(tmp_path: Path) -> None:
    """GPT-2 and TinyStories mark the end of a text so, whatever its length."""
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress("\n\n".join(f"story {i}<|endoftext|>" for i in range(400)).encode()))
    assert texts(path) == [f"story {i}" for i in range(400)]


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


def test_the_language_of_a_record_is_kept(tmp_path: Path) -> None:
    langs = ["de", None, " ", " fr "]
    path = tmp_path / "a.jsonl"
    records = [{"text": "a", "lang": lang} for lang in [*langs, 3]] + [{"text": "a"}]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert [row.lang for row in read_documents(path, "text")] == ["de", None, None, "fr", None, None]
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"lang": langs, "text": ["a"] * 4}), path)
    assert [row.lang for row in read_documents(path, "text")] == ["de", None, None, "fr"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_a_field_of_that_name_may_hold_the_text(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text('{"lang": "a text"}')
    if name == "a.parquet":
        pyarrow.parquet.write_table(pyarrow.table({"lang": ["a text"]}), path)
    assert [(row.text, row.lang) for row in read_documents(path, "lang")] == [("a text", None)]


def test_positions_end_at_the_size_of_the_file(tmp_path: Path) -> None:
    content = jsonl(*("x" * 2000 for _ in range(200)))
    for name in ("a.jsonl", "a.txt", "a.jsonl.gz", "a.parquet"):
        path = tmp_path / name
        if name.endswith("parquet"):
            pyarrow.parquet.write_table(pyarrow.table({"text": ["a"] * 200}), path)
        else:
            path.write_bytes(gzip.compress(content.encode()) if name.endswith("gz") else content.encode())
        positions = [row.position for row in read_documents(path, "text")]
        assert positions == sorted(positions)
        assert positions[-1] == path.stat().st_size
        if name == "a.jsonl":
            assert positions[99] == len(jsonl(*("x" * 2000 for _ in range(100))))


def test_line_ends_of_all_systems(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "one"}\r\n\r\n{"text": "two\\r\\n"}\n{"text": "three"}')
    assert places(path) == [(f"{path}:1", "one"), (f"{path}:3", "two\r\n"), (f"{path}:4", "three")]
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\nmore\r\n<|endoftext|>\r\ntwo\rmac\n<|endoftext|>\n")
    assert places(path) == [(f"{path}:1", "one\r\nmore"), (f"{path}:4", "two\rmac")]


def cut_gzip(path: Path) -> None:
    path.write_bytes(gzip.compress(jsonl(*map(str, range(999))).encode())[:-20])


def spoilt_gzip(path: Path) -> None:
    content = bytearray(gzip.compress(jsonl(*map(str, range(999))).encode()))
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def cut_parquet(path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"] * 99}), path)
    path.write_bytes(path.read_bytes()[:-9])


def number_parquet(path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"text": [1, 2]}), path)


def null_parquet(path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a", None]}), path)


def latin_parquet(path: Path) -> None:
    column = pyarrow.array([b"fine", b"caf\xe9"], pyarrow.binary())
    table = pyarrow.table({"text": pyarrow.Array.from_buffers(pyarrow.string(), 2, column.buffers())})
    pyarrow.parquet.write_table(table, path)


BAD_FILES: list[tuple[str, str, bytes | Callable[[Path], None], str]] = [
    ("empty", "a.txt", b"", "{path}: 0 documents with text (read 0, all empty). Give a file with text."),
    (
        "blank",
        "a.txt",
        b" \n\t\r\n",
        "{path}: 0 documents with text (read 1, all empty). Give a file with text.",
    ),
    (
        "empty texts",
        "a.jsonl",
        jsonl(" ", "\n").encode(),
        "{path}: 0 documents with text (read 2, all empty). Give a file with text.",
    ),
    (
        "unclosed",
        "a.jsonl",
        b'{"text": "a"}\n{"text": "unclosed\n',
        "{path}:2: not valid JSON (column 10: Unterminated string starting at). Mend or remove the line.",
    ),
    (
        "array",
        "a.jsonl",
        b'["a"]\n',
        '{path}:1: not a JSON object. Write {{"text": "..."}} on each line.',
    ),
    (
        "array over lines",
        "a.jsonl",
        b'[\n{"text": "a"},\n]',
        '{path}:1: not a JSON object. Write {{"text": "..."}} on each line.',
    ),
    (
        "surrogate",
        "a.jsonl",
        b'{"text": "\\ud800"}\n',
        "{path}:1: half of a surrogate pair is no character. Mend or remove the line.",
    ),
    (
        "surrogate in lang",
        "a.jsonl",
        b'{"text": "a", "lang": "\\ud800"}',
        "{path}:1: half of a surrogate pair is no character. Mend or remove the line.",
    ),
    (
        "deep",
        "a.jsonl",
        b'{"text": "a"}\n' + b"[" * 100_000,
        "{path}:2: JSON too deep or with too long a number. Mend or remove the line.",
    ),
    (
        "long number",
        "a.jsonl",
        b'{"text": ' + b"1" * 5000,
        "{path}:1: JSON too deep or with too long a number. Mend or remove the line.",
    ),
    ("Latin-1", "a.txt", b"fine\ncaf\xe9\n", "{path}:2: not UTF-8 (byte 0xE9). Convert the file to UTF-8."),
    ("UTF-16", "a.txt", "text".encode("utf-16"), "{path}:1: UTF-16 text. Convert it to UTF-8."),
    (
        "UTF-16 BE",
        "a.jsonl",
        b"\xfe\xff" + "text".encode("utf-16-be"),
        "{path}:1: UTF-16 text. Convert it to UTF-8.",
    ),
    ("UTF-32", "a.txt", "text".encode("utf-32"), "{path}:1: UTF-32 text. Convert it to UTF-8."),
    (
        "UTF-16 unmarked",
        "a.txt",
        "text".encode("utf-16-le"),
        "{path}:1: NUL bytes, so it isn't UTF-8 text. Convert it to UTF-8.",
    ),
    (
        "NUL",
        "a.jsonl",
        b'{"text": "a"}\n{"text": "\0"}',
        "{path}:2: NUL bytes, so it isn't UTF-8 text. Convert it to UTF-8.",
    ),
    (
        "binary",
        "a.txt",
        bytes(range(256)),
        "{path}:1: NUL bytes, so it isn't UTF-8 text. Convert it to UTF-8.",
    ),
    (
        "image",
        "a.txt",
        b"\x89PNG\r\n\x1a\n\0\0\0",
        "{path}:1: not UTF-8 (byte 0x89). Convert the file to UTF-8.",
    ),
    (
        "gzip unnamed",
        "a.jsonl",
        gzip.compress(b"a"),
        "{path}:1: compressed by gzip. Let its name end in .gz.",
    ),
    ("parquet unnamed", "a.txt", b"PAR1\x15", "{path}:1: a parquet file. Let its name end in .parquet."),
    (
        "not gzip",
        "a.jsonl.gz",
        b"not gzip",
        "{path}: can't be read after line 0 (Not a gzipped file (b'no')). Copy it again.",
    ),
    (
        "cut gzip",
        "a.jsonl.gz",
        cut_gzip,
        "{path}: can't be read after line *(Compressed file ended before the end-of-stream marker was "
        "reached). Copy it again.",
    ),
    ("spoilt gzip", "a.jsonl.gz", spoilt_gzip, "{path}*"),
    (
        "no parquet",
        "a.parquet",
        b"",
        "{path}: can't be read as parquet (*; the file has 0 bytes). Copy it again.",
    ),
    ("cut parquet", "a.parquet", cut_parquet, "{path}: can't be read as parquet (*). Copy it again."),
    (
        "Latin-1 parquet",
        "a.parquet",
        latin_parquet,
        "{path}:2: not UTF-8 (byte 0xE9). Convert the column to UTF-8.",
    ),
    (
        "broken list",
        "a.json",
        b'[{"text": "a"},\n {"text": "b" "c"}]',
        "{path}:2: not valid JSON (column 15: Expecting ',' delimiter). Mend or remove the line.",
    ),
    (
        "no list",
        "a.json",
        b'["a", "b"]',
        '{path}:1: not a JSON object. Write {{"text": "..."}} for each document.',
    ),
    ("cut list", "a.json", b'[{"text": "a"}\n', "{path}:2: the list has no end. Copy the file again."),
    (
        "list without commas",
        "a.json",
        b'[{"text": "a"}\n{"text": "b"}]',
        "{path}:2: not valid JSON (column 1: Expecting ',' delimiter). Mend or remove the line.",
    ),
    (
        "more behind a list",
        "a.json",
        b'[{"text": "a"}]\n[]',
        "{path}:2: not valid JSON (column 1: Extra data). Mend or remove the line.",
    ),
    (
        "Latin-1 JSON",
        "a.json",
        b'[{"text": "caf\xe9"}]',
        "{path}:1: not UTF-8 (byte 0xE9). Convert the file to UTF-8.",
    ),
    (
        "open quotes",
        "a.csv",
        b'text\na\n"b\nc\n',
        "{path}:3: not valid CSV (unexpected end of data). Mend the quotes of the row, or remove it.",
    ),
    (
        "a comma too many",
        "a.csv",
        b"id,text\n1,a\n2,b, c\n",
        "{path}:3: 3 fields, and the first row has 2. Mend or remove the row.",
    ),
    (
        "a head alone",
        "a.csv",
        b"text\n",
        "{path}: 0 documents with text (read 0, all empty). Give a file with text.",
    ),
]
BAD_FIELDS: list[tuple[str, bytes | Callable[[Path], None], str]] = [
    ("a.jsonl", b'{"txt": "a", "id": 1}\n', "({path}:1): no such field. Fields seen: txt, id."),
    ("a.jsonl", b'{"text": 3, "id": 1}\n', "({path}:1): holds no string. Fields seen: text, id."),
    ("a.parquet", number_parquet, "({path}:1): this row holds no string."),
    (
        "a.parquet",
        null_parquet,
        "({path}:2): this row holds no string. data.skip_null=true passes over nulls.",
    ),
    (
        "a.json",
        b'[{"text": "a"},\n {"text": null}]',
        "({path}:2): holds no string. Fields seen: text. data.skip_null=true passes over nulls.",
    ),
    ("a.json", b'{"data": [{"text": "a"}]}', "({path}:1): no such field. Fields seen: data."),
    ("a.csv", b"id,story\n1,a\n", "({path}): no such column. Fields seen: id, story."),
]


def refusal(path: Path, content: bytes | Callable[[Path], None]) -> str:
    if callable(content):
        content(path)
    else:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as raised:
        texts(path)
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "content", "message"), [case[1:] for case in BAD_FILES], ids=[case[0] for case in BAD_FILES]
)
def test_bad_files(tmp_path: Path, name: str, content: bytes | Callable[[Path], None], message: str) -> None:
    """In the expected message * stands for anything."""
    path = tmp_path / name
    pattern = re.escape("data.path = " + message.format(path=path)).replace(r"\*", ".*")
    assert re.fullmatch(pattern, refusal(path, content))


@pytest.mark.parametrize(("name", "content", "message"), BAD_FIELDS)
def test_bad_fields(tmp_path: Path, name: str, content: bytes | Callable[[Path], None], message: str) -> None:
    path = tmp_path / name
    assert refusal(path, content) == "data.text_field = text " + message.format(path=path)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.jsonl.gz"])
def test_a_huge_line_is_refused_in_little_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with gzip.open(path, "wb", compresslevel=1) if name.endswith("gz") else path.open("wb") as file:
        file.write(b'{"text": "a"}\n{"text": "')
        for _ in range(12):
            file.write(b"x" * 5_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError) as raised:
            texts(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(raised.value) == (
        f"data.path = {path}:2: more than 16,000,000 bytes in a line. Break it into lines."
    )
    assert peak < 3 * LONGEST < 60_000_000


@pytest.mark.slow
@pytest.mark.parametrize(("separator", "ways"), [("", " or by blank lines"), ("<|endoftext|>\n", "")])
def test_a_document_without_end_is_refused(tmp_path: Path, separator: str, ways: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"one\n{separator}" + "A sentence on each line, no line between.\n" * 500_000)
    with pytest.raises(ConfigError) as raised:
        texts(path)
    assert str(raised.value) == (
        f"data.path = {path}:{3 if separator else 1}: more than 16,000,000 characters in a document. "
        f"Separate documents by <|endoftext|>{ways}."
    )


def test_a_missing_parquet_column_names_those_there(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"story": ["a"], "n": [1]}), path)
    with pytest.raises(
        ConfigError, match=r"data.text_field = text \(\S+\): no such column. Fields seen: story, n."
    ):
        texts(path)
