"""The site of docs/ and the reports: MkDocs builds it without a warning, every link leads somewhere, and
nothing is loaded from elsewhere.
"""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from lab.commands import places
from lab.report.docs_links import address
from tests.docs.pages import PAGES
from tests.paths import ROOT

pytestmark = pytest.mark.slow
REPORT = "confidence/nano-tinystories-cpu-45f7f8"  # the quickest to draw


class Addresses(HTMLParser):
    """What a page loads, what it links, and the places in it that a link may name."""

    def __init__(self, page: Path):
        super().__init__()
        self.loaded, self.linked, self.ids = [], [], set()
        self.feed(page.read_text())

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        if named.get("rel") != "canonical":
            found = [named[name] for name in ("src", "href", "srcset") if named.get(name)]
            (self.linked if tag == "a" else self.loaded).extend(found)
        self.ids |= {named.get("id"), named.get("name")}


@pytest.fixture(scope="module")
def site(lab, tmp_path_factory) -> Path:
    """The pages of docs/, and with them one report and the ledger."""
    folder = tmp_path_factory.mktemp("whole") / "site"
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shutil.copytree(ROOT / "results" / REPORT, places.RESULTS / REPORT)
    shutil.copy(ROOT / "results/exact.jsonl", places.RESULTS)
    shutil.copytree(ROOT / "results/measured", places.RESULTS / "measured")
    assert lab("site", folder) == 0
    return folder


def test_the_start_page_leads_to_every_page_to_the_reports_and_to_the_ledger(site):
    linked = set(Addresses(site / "index.html").linked)
    pages = {f"{page.stem}.html" for page in PAGES if page.name != "README.md"}
    assert pages | {"reports.html", "ledger.html"} <= linked | {"index.html"}
    assert "index.html" in Addresses(site / "reports.html").linked


def test_every_link_of_the_pages_leads_somewhere(site):
    """To a page, a place in it, or the report of a published sweep, of which the site here has one."""
    published = {address(str(path.relative_to(ROOT))) for path in ROOT.glob("results/*/*/REPORT.md")}
    for page in site.glob("*.html"):
        found = Addresses(page)
        for link in found.linked + found.loaded:
            parts = urlsplit(link)
            if parts.scheme or page.name == "404.html" or parts.path in published:
                continue
            target = page.parent / unquote(parts.path) if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), (page.name, link)
            if parts.fragment and target.suffix == ".html":
                assert unquote(parts.fragment) in Addresses(target).ids, (page.name, link)


def test_nothing_is_loaded_from_elsewhere(site):
    for page in site.glob("*.html"):
        assert not [link for link in Addresses(page).loaded if urlsplit(link).netloc], page.name
    for path in site.rglob("*.css"):
        assert not re.search(r"@import|url\([\"']?(https?:)?//", path.read_text()), path.name


def test_addresses_of_the_repository_become_those_of_the_site():
    assert address("results/norm/nano-stories-cpu/REPORT.md") == "norm/nano-stories-cpu/report.html"
    assert address("results/LEDGER.md") == "ledger.html" and address("results") == "reports.html"
    assert address("results/skills/learning.png") == "results/skills/learning.png"
