"""One's own text at the command line: a line says what was read, and a trained run needs the text no more."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.commands import places

TINY = [
    "data=text",
    "size=nano",
    "tracker=none",
    "vocab=bytes",
    "budget.amount=20480",
    "evaluation.points=2",
    "evaluation.documents=16",
    "evaluation.samples=0",
    "size.d_model=32",
    "size.num_layers=1",
    "size.context_length=64",
    "engine.workers=1",
]


def records(count: int, *, words: int = 40, first: int = 0) -> list[dict[str, str]]:
    return [
        {"text": " ".join(f"w{(i * 7919 + j * j) % 997}" for j in range(words)) + f" number {i}"}
        for i in range(first, first + count)
    ]


def as_lines(rows: list[dict[str, str]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_line_says_what_was_read_held_out_and_left_out(lab, tmp_path, capsys):
    folder = tmp_path / "mine"
    (folder / "deep").mkdir(parents=True)
    rows = records(400)
    empty = '{"text": " "}\n{"text": null}\n'
    (folder / "part-0.jsonl").write_text(as_lines(rows[:100]) + empty)
    (folder / "part-1.json.gz").write_bytes(gzip.compress(json.dumps(rows[100:250]).encode()))
    (folder / "deep/part-2.csv").write_text("text\n" + "".join(row["text"] + "\n" for row in rows[250:]))
    for name in ("cover.png", "README.txt", "test.jsonl"):
        (folder / name).write_text('{"text": "never read"}')
    assert lab("train", *TINY, f"data.path={folder}", "data.skip_null=true") == 0
    told = capsys.readouterr().err
    size = sum(len(row["text"]) for row in rows)
    assert f"text: 3 files; 400 documents of {size / 1e3:.1f} KB; " in told
    assert " of the bytes, held out for validation; " in told and "; skipped 2 records without text; " in told
    assert "; skipped cover.png (ends in none of .txt, .jsonl, .json, .csv, .parquet)" in told
    assert "; skipped README.txt (about the text); skipped test.jsonl (test split)\n" in told


def test_a_small_text_is_told_how_often_it_is_read(lab, tmp_path, capsys):
    """Three sentences of 90 bytes and the tokens that stand between them make 91 to 94 of bytes."""
    path = tmp_path / "three.jsonl"
    path.write_text(as_lines([{"text": letter * 500} for letter in "abc"]))
    held_out = tmp_path / "held_out.jsonl"
    held_out.write_text(as_lines([{"text": "d" * 500}]))
    assert lab("train", *TINY, f"data.path={path}", f"data.validation_path={held_out}") == 0
    told = capsys.readouterr().err
    # 20,480 tokens of a text of 3 x 501 and a last one.
    assert f"text: Training passes over the text {20480 / 1504:.1f} times; " in told
    assert "1 of them, 25.0% of the bytes, in validation files; one validation document says little" in told


def test_records_of_240_kb_are_told_to_take_longer_to_score_than_to_read(lab, tmp_path, capsys, monkeypatch):
    path = tmp_path / "long.jsonl"
    path.write_text(as_lines([{"text": row["text"] * 3000} for row in records(8, words=15)]))
    monkeypatch.setattr("lab.commands.jobs.execute", lambda work, *, quiet: {})
    assert lab("train", *TINY, f"data.path={path}", "data.validation_fraction=0.3") == 1
    told = capsys.readouterr().err
    assert "text: Its 2 evaluations score " in told and "longer than training on 20,480; evaluation" in told


@pytest.fixture(scope="module")
def trained(lab, tmp_path_factory) -> tuple[str, Path]:
    """A run on a file that is named from the folder it lies in, and that file."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "mine.jsonl").write_text(as_lines(records(100)))
    before = set(places.store().ids())
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    assert lab("train", *TINY, "vocab=bpe_512", "data.path=mine.jsonl") == 0
    patch.undo()
    [name] = set(places.store().ids()) - before
    return name, folder / "mine.jsonl"


def append(path: Path) -> None:
    path.write_text(path.read_text() + as_lines(records(1, first=500)))


@pytest.mark.parametrize("kept", [True, False], ids=["in the run", "in the cache"])
@pytest.mark.parametrize(
    "fate", [lambda path: None, append, Path.unlink], ids=["as it was", "longer", "gone"]
)
def test_a_run_is_sampled_and_exported_whatever_becomes_of_its_text(
    lab, trained, tmp_path, monkeypatch, capsys, fate: Callable[[Path], None], kept: bool
):
    """Runs from before the tokenizer was kept find it in the cache, by the fingerprint of their text."""
    name, path = trained
    own, content = places.RESULTS / "runs" / name / "tokenizer.json", path.read_text()
    saved = own.read_bytes()
    monkeypatch.chdir(tmp_path)
    fate(path)
    if not kept:
        own.unlink()
    try:
        assert lab("sample", name[:6], "--json") == 0
        assert json.loads(capsys.readouterr().out)[0]["id"] == name
        assert lab("export", name, "--to", "hf", tmp_path / "out") == 0
        exported = json.loads((tmp_path / "out/tokenizer.json").read_text())
        assert len(exported["model"]["vocab"]) == 512
    finally:
        path.write_text(content)
        own.write_bytes(saved)


def test_a_run_without_tokenizer_cache_and_text_is_told_what_it_needs(
    lab, trained, tmp_path, monkeypatch, capsys
):
    name, path = trained
    (places.RESULTS / "runs" / name / "tokenizer.json").unlink()
    monkeypatch.setattr(places, "CACHE", tmp_path / "cache")
    monkeypatch.chdir(path.parent)
    content = path.read_text()
    append(path)
    assert lab("sample", name) == 2
    assert f"{name} (command line): data.path = mine.jsonl: is another text than" in capsys.readouterr().err
    path.unlink()
    assert lab("sample", name) == 2
    assert "data.path = mine.jsonl: no such file" in capsys.readouterr().err
    path.write_text(content)
    assert lab("sample", name) == 0


def test_a_damaged_tokenizer_is_not_used(lab, trained, capsys):
    name, _ = trained
    own = places.RESULTS / "runs" / name / "tokenizer.json"
    shutil.copy(next(places.CACHE.glob("*/tokenizer.json")), own)
    own.write_text(own.read_text().replace("w", "x", 1))
    assert places.store().tokenizer(name) is None
