"""The site: every page is there, every link leads somewhere, nothing comes from elsewhere, text stays
text.
"""

import json
import re
import shutil
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from lab.commands import places
from tests.paths import ROOT
from tests.report.test_report import HOSTILE, Tree
from tests.synthetic_sweep import BASIN, sweep

pytestmark = pytest.mark.slow

RESULTS = ROOT / "results"
SWEEPS = ("confidence/nano-tinystories-cpu-45f7f8",)  # the quickest to draw; a page a sweep is alike


class Addresses(HTMLParser):
    """What a page loads, what it links, the places in it that a link may name, and its policy."""

    def __init__(self, page):
        super().__init__()
        self.loaded, self.linked, self.ids, self.policy = [], [], set(), ""
        self.feed(page.read_text())

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        addresses = [named[name] for name in ("src", "href", "srcset", "data") if name in named]
        (self.linked if tag == "a" else self.loaded).extend(addresses)
        self.ids |= {named.get("id")}
        if named.get("http-equiv") == "Content-Security-Policy":
            self.policy = named["content"]


@cache
def read(page: Path) -> Addresses:
    return Addresses(page)


@pytest.fixture(scope="module")
def site(lab, tmp_path_factory):
    """The site of some published sweeps, of all computed claims and of all measured ones."""
    for name in SWEEPS:
        shutil.copytree(RESULTS / name, places.RESULTS / name)
    shutil.copy(RESULTS / "exact.jsonl", places.RESULTS)
    shutil.copytree(RESULTS / "measured", places.RESULTS / "measured")
    folder = tmp_path_factory.mktemp("site")
    assert lab("site", folder) == 0
    return folder


def published(results: Path, plan, records):
    """A made-up sweep as `lab publish` would leave it for the site."""
    folder = results / "ffn-ratio" / "nano-stories-cpu"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "runs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def built(results: Path, site: Path) -> dict[str, bytes]:
    """The files of a site by their path."""
    from lab.report import static_site

    entries = list(static_site.write_reports(results, site))
    static_site.write_frame(results, site, entries=entries, ledger="")
    return {str(path.relative_to(site)): path.read_bytes() for path in site.rglob("*") if path.is_file()}


def test_every_published_sweep_has_a_page_that_the_index_lists(site):
    pages = {f"{name}/report.html" for name in SWEEPS}
    assert {str(path.relative_to(site)) for path in site.glob("*/*/report.html")} == pages
    assert pages | {"ledger.html"} <= set(read(site / "reports.html").linked)


def test_a_page_says_what_the_committed_report_says(site):
    """Every sentence of the verdicts, every cell of the tables: the two forms share one content."""
    for name in SWEEPS:
        shown = " ".join(Tree((site / name / "report.html").read_text()).text.split())
        verdict = json.loads((RESULTS / name / "verdict.json").read_text())
        for claim in verdict["claims"]:
            assert claim["outcome"] in shown and claim["why"] in shown
        for arm in verdict["arms"]:
            assert arm["label"] in shown and f"{arm['bpb']['mean']:.4f}" in shown


def test_every_link_leads_somewhere(site):
    """To a file of the site and a place in it, or to a paper."""
    for page in site.rglob("*.html"):
        for address in (found := read(page)).loaded + found.linked:
            parts = urlsplit(address)
            if parts.scheme:
                assert parts.scheme == "https" and address not in found.loaded, (page, address)
                continue
            target = page.parent / unquote(parts.path) if parts.path else page
            assert target.is_file() and target.resolve().is_relative_to(site), (page, address)
            assert not parts.fragment or parts.fragment in read(target).ids, (page, address)


def test_nothing_is_loaded_from_elsewhere(site):
    for page in site.rglob("*.html"):
        found = read(page)
        assert re.fullmatch(r"default-src 'none'(; [a-z]+-src 'self')+; base-uri 'none'; .*", found.policy)
        assert not any(urlsplit(address).scheme or address.startswith("//") for address in found.loaded)
        assert "<style" not in page.read_text() and " style=" not in page.read_text()
    for path in (*site.rglob("*.css"), *site.rglob("*.js"), *site.rglob("*.svg")):
        assert not re.search(r"@import|url\((?!#)|href=\"(?!#)|fetch\(", path.read_text()), path


def test_the_same_results_give_the_same_bytes(tmp_path):
    published(tmp_path / "results", *sweep({"plain_x4": [1.5, 1.6], "plain_x8": [1.6, 1.5]}))
    first, second = (built(tmp_path / "results", tmp_path / name) for name in ("first", "second"))
    assert first == second and "ffn-ratio/nano-stories-cpu/figures/final.svg" in first


def test_hostile_text_changes_no_element(tmp_path):
    plan, records = sweep({"plain_x4": [1.5, 1.6], "plain_x8": [1.6, "failed"]})
    published(tmp_path / "harmless", plan, records)
    plan |= {"title": HOSTILE[0], "question": HOSTILE[1], "source": HOSTILE[2], "data": HOSTILE[3]}
    plan["claims"] = [BASIN | {"statement": HOSTILE[4], "id": HOSTILE[0], "prediction": HOSTILE[1]}]
    for arm, label in zip(plan["arms"], HOSTILE, strict=False):
        arm["label"] = label
    records[-1]["summary"]["reason"] = HOSTILE[2]
    published(tmp_path / "hostile", plan, records)
    harmless, hostile = (
        built(tmp_path / kind, tmp_path / f"{kind} site") for kind in ("harmless", "hostile")
    )
    assert harmless.keys() == hostile.keys()
    for name in ("reports.html", "ffn-ratio/nano-stories-cpu/report.html"):
        shown = Tree(hostile[name].decode())
        assert shown.tags == Tree(harmless[name].decode()).tags and HOSTILE[0] in shown.text


def test_a_plan_cannot_say_where_its_page_goes(tmp_path):
    plan, records = sweep({"plain_x4": [1.5], "plain_x8": [1.6]})
    published(tmp_path / "results", plan | {"ablation": "../..", "setting": "../../elsewhere"}, records)
    assert "ffn-ratio/nano-stories-cpu/report.html" in built(tmp_path / "results", tmp_path / "site")
    assert {path.name for path in tmp_path.iterdir()} == {"results", "site"}


@pytest.mark.parametrize("page", [*RESULTS.rglob("*.md")], ids=lambda page: str(page.parent.name))
def test_links_of_committed_pages_lead_somewhere(page):
    """Of LEDGER.md and every REPORT.md: to files beside them, or to headings of their own."""
    text = page.read_text()
    anchors = {
        re.sub(r"[^\w -]", "", head).replace(" ", "-") for head in re.findall(r"^#+ (.+)$", text, re.M)
    }
    for address in re.findall(r"(?<!\\)\]\(([^)\s]+)\)", text):
        parts = urlsplit(address)
        if not parts.scheme:
            assert not parts.path or (page.parent / unquote(parts.path)).exists(), address
            assert not parts.fragment or parts.path or parts.fragment in anchors, address
