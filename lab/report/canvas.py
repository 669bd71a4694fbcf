"""What every picture shares: style, colours, and how it becomes a file.

Colours are Okabe and Ito's (2008), told apart by colour-blind readers. Text from plans is never read as
mathematics.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 130
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D46")
GREY = "#767676"
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "text.parse_math": False,
    "svg.hashsalt": "lab",
    "figure.constrained_layout.use": True,
}


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Draw inside: the style of the house, and a box without a warning for a character the font lacks."""
    import matplotlib

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Glyph .* missing from font"
        )  # a label may be in any script
        yield


def subplots(rows: int, columns: int, *, size: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    """Axes on a figure of its own, free of pyplot's global state and of any display."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size)
    return figure, figure.subplots(rows, columns, squeeze=rows == 1 or columns == 1, **options)


def settled(figure: Figure) -> Figure:
    """Laid out once, not again for each file format."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def svg(figure: Figure) -> bytes:
    """The figure as an SVG document, the same bytes for the same figure and matplotlib.

    Its paths keep coordinates to a hundredth of a point, an eightieth of a pixel, which makes it smaller than
    the PNG picture.
    """
    written = _save(figure, "svg", {"Date": None, "Creator": None})
    return re.sub(rb' d="[^"]*"', lambda path: _short(path[0]), written)


def _short(path: bytes) -> bytes:
    """A path without the digits and blanks that nobody sees."""
    path = re.sub(rb"-?\d+\.\d{3,}", _hundredths, path)
    return re.sub(rb" (?=\n)|(?<=[MLQC]) ", b"", path)


def _hundredths(number: re.Match[bytes]) -> bytes:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".").encode()


def png(figure: Figure) -> bytes:
    """The figure as a PNG picture, the same bytes for the same figure and matplotlib."""
    return _save(figure, "png", {"Software": None})


def _save(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    file = io.BytesIO()
    with styled():
        figure.savefig(file, format=kind, dpi=DPI, metadata=metadata)
    return file.getvalue()


def tokens_text(value: float, _: int) -> str:
    """1.5M for 1,500,000."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:g}"
