"""Pages for a browser, which load nothing from elsewhere and run nothing but their own few lines of script.

A page takes one of two forms. report.html of a sweep is a single file: style and script stand in it and the
content security policy allows them by their hash alone; pictures are SVG in data: addresses. A page of the
site shares style and script with the others, and its policy allows what comes from the site itself.
Jinja2 escapes every value, and no script runs inside a picture.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.report.page import Page

FOLDER = Path(__file__).parent
ASSETS = ("report.css", "report.js")


def single_file(page: Page, pictures: Mapping[str, bytes]) -> str:
    """report.html of a page with `pictures`, SVG documents by figure name."""
    assets = {name: (FOLDER / name).read_text(encoding="utf-8") for name in ASSETS}
    style, script = (f"'sha256-{_base64(_sha256(text))}'" for text in assets.values())
    addresses = {name: f"data:image/svg+xml;base64,{_base64(svg)}" for name, svg in pictures.items()}
    return _render(
        FOLDER / "report.html",
        page=page,
        pictures=addresses,
        policy=_policy(image="data:", style=style, script=script),
        root=None,
        assets=assets,
    )


def of_site(page: object, *, template: Path, root: str, pictures: Mapping[str, str] | None = None) -> str:
    """A page of the site, as its template shows it.

    root: relative address of the site's folder as seen from the page, "../../" for one two folders down;
    pictures: relative addresses of the figures by name.
    """
    return _render(
        template,
        page=page,
        pictures=pictures or {},
        policy=_policy(image="'self'", style="'self'", script="'self'"),
        root=root,
        assets={},
    )


def _render(
    template: Path,
    *,
    page: object,
    pictures: Mapping[str, str],
    policy: str,
    root: str | None,
    assets: Mapping[str, str],
) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader([template.parent, FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template(template.name).render(
        page=page,
        pictures=pictures,
        policy=Markup(policy),
        root=root,
        assets={name: Markup(text) for name, text in assets.items()},
    )


def _policy(*, image: str, style: str, script: str) -> str:
    """A content security policy that allows pictures, style and script from these sources alone."""
    return (
        f"default-src 'none'; img-src {image}; style-src {style}; script-src {script}; "
        "base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
