"""What the pages say of the project is what the project has: keys, options, files, headings, sizes."""

import json
import re
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs import conf_keys
from tests.docs.pages import PAGES
from tests.paths import ROOT

README = (ROOT / "README.md").read_text()
CONFIGURATION = (ROOT / "docs/configuration.md").read_text()


def rows(text: str) -> list[list[str]]:
    """The cells of all tables, without code marks and bold."""
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip().replace("\\|", "|") for cell in row] for row in cells]


def test_every_key_of_the_configuration_is_explained_with_its_default():
    told = {row[0].strip("`"): row for row in rows(CONFIGURATION) if len(row) == 3 and row[0][0] == "`"}
    for key, default in conf_keys.keys().items():
        assert key in told, f"docs/configuration.md lacks: | `{key}` | {default} | what it does |"
        assert told[key][1] == default, f"docs/configuration.md: the default of {key} is {default}"
        assert len(told[key][2]) > 5, key
    assert told.keys() == conf_keys.keys().keys()


def test_every_option_of_the_configuration_says_what_its_file_says():
    told = {row[0].strip("*`"): row[1] for row in rows(CONFIGURATION) if len(row) == 2 and "=" in row[0]}
    for option, what in conf_keys.options().items():
        assert option in told, f"docs/configuration.md lacks: | `{option}` | {what} |"
        assert told[option] == what or not what and told[option], option
    assert told.keys() == conf_keys.options().keys()


def test_the_options_of_the_baseline_are_bold():
    bold = set(re.findall(r"\*\*`(\w+=\w+)`\*\*", CONFIGURATION))
    chosen = {group: name if isinstance(name, list) else [name] for group, name in conf_keys.BASELINE.items()}
    assert bold == {f"{group}={name}" for group, names in chosen.items() for name in names}


def test_the_readme_fits_its_bounds():
    assert len(README.split()) <= 1200
    first_screen = README[: README.index("![")]
    assert (
        "make sweep-ffn-ratio" in first_screen
        and "<!-- the answer of make sweep-ffn-ratio -->" in first_screen
    )
    assert all(len(line) <= 100 for line in first_screen.split("```text\n")[1].split("```")[0].splitlines())


def test_sizes_are_those_of_the_configuration():
    told = {row[0].strip("`"): row for row in rows((ROOT / "docs/index.md").read_text()) if len(row) == 7}
    for path in conf_keys.files("size"):
        size = conf_keys.content(path)
        of = told[path.stem]
        assert of[1] == f"{size['d_model']} x {size['num_layers']}"
        assert [int(cell.replace(",", "")) for cell in of[2:5]] == [
            size["context_length"],
            size["vocab_size"],
            size["tokens_per_step"],
        ]
        assert float(of[5].removesuffix(" M")) == pytest.approx(size["tokens"] / 1e6, rel=0.03)


def anchors(text: str) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_there_are(page):
    text = page.read_text()
    for address in re.findall(r"(?<!\\)\]\(([^)\s]+)\)", re.sub(r"`[^`\n]+`", "", text)):
        parts = urlsplit(address)
        if not parts.scheme:
            target = page.parent / unquote(parts.path) if parts.path else page
            assert target.exists(), address
            assert not parts.fragment or parts.fragment in anchors(target.read_text()), address


def test_the_results_are_the_published_ones():
    """Of every claim on the page its outcome and its seeds, from the verdict that its row, or the one before
    it, links.
    """
    page, verdict, checked = ROOT / "docs/results.md", {}, set()
    for row in rows(page.read_text()):
        if linked := re.search(r"\]\(([^)]+)/REPORT\.md", row[0]):
            claims = json.loads((page.parent / linked[1] / "verdict.json").read_text())["claims"]
            verdict = {claim["id"]: claim for claim in claims}
        for claim in re.findall(r"`([a-z0-9-]+)`", row[0]):
            assert verdict[claim]["outcome"] in row[1], claim
            assert verdict[claim]["seeds"] == int(row[2]), claim
            checked.add(claim)
    assert len(checked) > 25


def test_the_findings_of_the_readme_are_published():
    """Each effect, with its interval, stands in the report that its row links, but for rounding."""
    told = README[README.index("<!-- three findings -->") : README.index("<!-- end of three findings -->")]
    for row in rows(told)[2:]:
        report = (ROOT / re.findall(r"\]\(([^)]+)\)", row[0])[0]).read_text()
        published = re.findall(r"([+-][\d.]+) % \(95 % interval ([+-][\d.]+) to ([+-][\d.]+) %\)", report)
        sizes = [sorted(abs(float(number)) for number in numbers) for numbers in published]
        effects = re.findall(r"([\d.]+) %[a-z ]*\(([\d.]+) to ([\d.]+)\)", row[1])
        assert effects, row
        for effect in effects:
            asked, decimals = sorted(map(float, effect)), len(effect[0].partition(".")[2])
            assert asked in [[round(size, decimals) for size in one] for one in sizes], effect
