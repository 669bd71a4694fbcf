"""Folders as people have them: every file is read or named, and no name takes some of many in silence."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from lab.config.schema import Data
from lab.config.strict import ConfigError
from lab.data.text_files import TextFiles, find
from tests.tiny_run import GRAMMAR

TALES = [f"tale_{number:02}.txt" for number in range(60)]
TEXT = Data("text", None, None, 0.5, "text", 0, 0, 0, GRAMMAR)


def found(folder: Path, *names: str, **changes: object) -> TextFiles:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return find(replace(TEXT, **{"path": str(folder), **changes}))


def below(folder: Path, paths: tuple[Path, ...]) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in paths]


def told(files: TextFiles) -> dict[str, tuple[str, ...]]:
    return dict(files.skipped)


@pytest.mark.parametrize(
    ("taker", "way"),
    [
        ("the_night_train.txt", "would be the only text trained on, of 61 text files"),
        ("train.txt", "would be the only text trained on, of 61 text files"),
        ("train/one.txt", "would be the only text trained on, of 61 text files"),
        ("on_the_val.txt", "would be the validation text, of 61 text files"),
        ("beta_test.txt", "would be left out as a test split, of 61 text files"),
        ("the_train.jsonl", "would be the only text trained on, of 61 text files"),
    ],
)
def test_a_name_that_takes_some_of_many_files_is_refused(tmp_path: Path, taker: str, way: str) -> None:
    with pytest.raises(ConfigError) as raised:
        found(tmp_path, *TALES, taker)
    [problem] = raised.value.problems
    assert f"by name {taker} {way} (others: tale_00.txt, tale_01.txt, tale_02.txt and 57 more)" in problem
    assert f"Rename {taker} to read it like them, or " in problem


def test_subfolders_are_read_and_a_readme_is_named(tmp_path: Path) -> None:
    books = [f"books/{name}" for name in TALES]
    files = found(tmp_path, *books, "deeper/still/a.txt", "README.txt")
    assert below(tmp_path, files.training) == sorted([*books, "deeper/still/a.txt"])
    assert told(files) == {"about the text": ("README.txt",)} and not files.validation


def test_a_readme_alone_is_the_text(tmp_path: Path) -> None:
    assert below(tmp_path, found(tmp_path, "README.txt").training) == ["README.txt"]


def test_every_format_of_a_folder_is_read_and_the_rest_is_named(tmp_path: Path) -> None:
    read = ["part-0.jsonl", "part-1.json.gz", "part-2.csv", "part-3.TXT", "part-4.parquet", "part-5.csv.gz"]
    files = found(tmp_path, *read, "cover.png", "notes.md", ".DS_Store", ".git/config.txt", "x.parquet.gz")
    assert below(tmp_path, files.training) == read
    assert told(files) == {
        "hidden": (".git/", ".DS_Store"),
        "ends in none of .txt, .jsonl, .json, .csv, .parquet": ("cover.png", "notes.md", "x.parquet.gz"),
    }


@pytest.mark.parametrize(
    ("training", "validation", "skipped"),
    [
        (
            ["train.txt"],
            ["validation.txt"],
            {"test split": ("test.txt",), "no split in the name": ("a.txt",)},
        ),
        (["wiki.train.txt"], ["wiki.valid.txt"], {"test split": ("wiki.test.txt",)}),
        (["train/a.txt", "train/b.txt"], ["val/a.txt"], {"test split": ("test/a.txt",)}),
        (["TRAIN-00000-of-00002-0a1b.txt", "train_01.txt"], ["dev.txt"], {}),
        (["a.txt", "b.txt"], ["validation.txt"], {}),
        (["books.txt"], ["books_val.txt"], {"test split": ("books_test.txt",)}),
        (["tale_train_of_thought.txt", "trainspotting.txt"], [], {}),
        (["en/a-train.txt", "fr/a-train.txt"], ["en/a-val.txt", "fr/a-val.txt"], {}),
    ],
)
def test_names_say_what_is_held_out(
    tmp_path: Path, training: list[str], validation: list[str], skipped: dict[str, tuple[str, ...]]
) -> None:
    files = found(tmp_path, *training, *validation, *(name for names in skipped.values() for name in names))
    assert below(tmp_path, files.training) == training and below(tmp_path, files.validation) == validation
    assert told(files) == skipped


def test_a_validation_path_outdoes_names_and_says_so(tmp_path: Path) -> None:
    own = tmp_path / "own"
    found(own, "validation.txt", "train.txt")
    files = found(tmp_path / "a", "train.txt", "validation.txt", validation_path=str(own))
    assert files.validation == (own / "validation.txt",)
    assert told(files) == {
        "data.validation_path is given": ("validation.txt",),
        "for training": ("train.txt",),
    }


def test_only_test_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds test files only \(test.txt\). Set data.path to a file."):
        found(tmp_path, "test.txt")
    with pytest.raises(ConfigError, match=r"no file in this folder ends in .* It holds a.docx."):
        found(tmp_path / "b", "a.docx")


def test_a_folder_named_like_a_file_is_a_folder_and_a_broken_link_is_refused(tmp_path: Path) -> None:
    files = found(tmp_path, "a.txt", "part.jsonl/part-0.jsonl")
    assert below(tmp_path, files.training) == ["a.txt", "part.jsonl/part-0.jsonl"]
    (tmp_path / "gone.txt").symlink_to("nowhere")
    with pytest.raises(ConfigError, match=r"data.path = \S+/gone.txt: is no regular file. Remove or rename"):
        found(tmp_path)


def test_links_that_lead_back_end(tmp_path: Path) -> None:
    found(tmp_path, "a/b.txt")
    (tmp_path / "a/up").symlink_to(tmp_path)
    assert below(tmp_path, found(tmp_path).training) == ["a/b.txt"]


def test_many_files_take_a_number_of_looks_that_grows_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file for both splits was compared with every other: 1.1 s at 375, 18.7 s at 1,500."""
    names = [f"{side}/{number}.txt" for side in ("train", "validation") for number in range(300)]
    looks, stat = [], os.stat
    monkeypatch.setattr(os, "stat", lambda *a, **k: looks.append(1) or stat(*a, **k))
    files = found(tmp_path, *names)
    assert len(files.training) == len(files.validation) == 300 and len(looks) < 10 * len(names)
