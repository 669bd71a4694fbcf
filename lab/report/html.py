"""report.html: one file that opens from disk without network and runs nothing but its own few lines of
script.

Jinja2 escapes every value; pictures are SVG in data: addresses, where no script runs; the content security
policy allows style and script by their hash alone.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def render(
    content: dict[str, Any], pictures: dict[str, bytes], *, template: Path = FOLDER / "template.html"
) -> str:
    """The page of `content` (lab/report/page.py) with `pictures`, SVG documents by figure name."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader([template.parent, FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    assets = {name: (FOLDER / name).read_text(encoding="utf-8") for name in ("report.css", "report.js")}
    return environment.get_template(template.name).render(
        page=content,
        pictures={
            name: f"data:image/svg+xml;base64,{_base64(picture)}" for name, picture in pictures.items()
        },
        style=Markup(assets["report.css"]),
        script=Markup(assets["report.js"]),
        hashes={
            name: "sha256-" + _base64(hashlib.sha256(text.encode()).digest()) for name, text in assets.items()
        },
    )


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
