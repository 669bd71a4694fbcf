"""One's own text at the command line: a line says what was read, and a trained run needs the text no more."""

import gzip
import json
import shutil
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
