"""The lexicon: its files are read as they are written, and its words bend as English words do."""

from pathlib import Path

import pytest

from lab.data.stories.lexicon import article, plural, read_lists


def test_a_list_goes_on_where_a_line_begins_with_white_space(tmp_path: Path) -> None:
    file = tmp_path / "lists.txt"
    file.write_text("# Not a list: a, b\n\npets: cat, big dog,\n  fox, yo-yo\n  owl\none: ant\n")
    assert read_lists(file) == {"pets": ("cat", "big dog", "fox", "yo-yo", "owl"), "one": ("ant",)}


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("cat", "cats"),
        ("fox", "foxes"),
        ("peach", "peaches"),
        ("radish", "radishes"),
        ("pony", "ponies"),
        ("monkey", "monkeys"),
        ("sheep", "sheep"),
        ("postman", "postmen"),
        ("potato", "potatoes"),
        ("tomato", "tomatoes"),
        ("rhino", "rhinos"),
    ],
)
def test_plurals_are_those_of_english(one: str, many: str) -> None:
    assert plural(one) == many


@pytest.mark.parametrize(
    "phrase", ["an owl", "a uniform", "an umbrella", "an honest boy", "a hen", "a useful map"]
)
def test_articles_are_those_of_english(phrase: str) -> None:
    first, _, rest = phrase.partition(" ")
    assert article(rest) == first
