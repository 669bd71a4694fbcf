"""Links of the pages in docs/, as they are in the site: a hook of MkDocs (mkdocs.yml).

In the repository a page links a report as ../results/<ablation>/<setting>/REPORT.md; in the site it is
<ablation>/<setting>/report.html, which `lab site` writes. Other files outside docs/ that a page links are
taken into the site under their path in the repository.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[2]
OUTSIDE = re.compile(r"(?<=\]\()\.\./([^)#\s]+)")
PAGES = {"results": "reports.html", "results/LEDGER.md": "ledger.html"}


def address(path: str) -> str:
    """Where the site has a file of the repository, given by its path in either."""
    report = re.fullmatch(r"results/(.+)/REPORT\.md", path)
    return f"{report[1]}/report.html" if report else PAGES.get(path, path)


def on_page_markdown(markdown: str, **_: object) -> str:
    """The text of a page with the addresses of the site."""
    return OUTSIDE.sub(lambda found: address(found[1]), markdown)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """The files of docs/ and those outside that its pages link."""
    from mkdocs.structure.files import File

    pages = [page.content_string for page in files.documentation_pages()]
    for path in sorted({path for page in pages for path in OUTSIDE.findall(page)}):
        if address(path) == path:
            files.append(File(path, str(ROOT), config.site_dir, use_directory_urls=False))
    return files
