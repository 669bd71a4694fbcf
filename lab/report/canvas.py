"""What every picture shares: style, colours, and how it becomes a file.

Colours are Okabe and Ito's (2008), told apart by colour-blind readers. Text from plans is never read as
mathematics.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

DPI = 130
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D46")
GREY = "#767676"
LINES, MARKERS = ("-", "--", ":", "-."), ("o", "s", "^", "D")
DASHED = (0, (4, 3))  # of lines that stand for no arm
ALONG = ("axes fraction", "data")  # coordinates: across the panel by fraction, up by value
UP = ("data", "axes fraction")
STYLE: dict[RcKeyType, float | str | bool] = {
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


@dataclass(frozen=True)
class Look:
    """How an arm looks in every figure: matplotlib's colour, line style and marker."""

    colour: str
    line: str
    marker: str


def subplots(
    rows: int,
    columns: int,
    *,
    size: tuple[float, float],
    sharex: bool = False,
    sharey: bool = False,
    height_ratios: Sequence[float] | None = None,
) -> tuple[Figure, list[Axes]]:
    """A figure free of pyplot's global state and of any display, and its panels row by row.

    size: width and height in inches.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=size)
    grid = figure.subplots(
        rows, columns, squeeze=False, sharex=sharex, sharey=sharey, height_ratios=height_ratios
    )
    return figure, list(grid.flat)


def arm_line(
    axes: Axes,
    look: Look,
    x: Sequence[float],
    y: Sequence[float],
    *,
    label: str | None = None,
    markersize: float = 4,
) -> None:
    """The line of one arm."""
    axes.plot(
        x,
        y,
        label=label,
        linewidth=1.5,
        markersize=markersize,
        color=look.colour,
        linestyle=look.line,
        marker=look.marker,
    )


def remark(
    axes: Axes,
    text: str,
    at: tuple[float, float],
    where: tuple[str, str],
    *,
    above: float = 0,
    ha: Literal["left", "center", "right"] = "left",
    va: Literal["top", "center", "baseline"] = "baseline",
    rotation: float = 0,
    on_paper: bool = False,
) -> None:
    """A few words in small grey letters.

    where: the coordinates that `at` is in, ALONG or UP; above: points to move up; on_paper: on white, which
    lines don't cross.
    """
    axes.annotate(
        text,
        at,
        (0, above),
        xycoords=where,
        textcoords="offset points",
        color=GREY,
        fontsize=8,
        ha=ha,
        va=va,
        rotation=rotation,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1} if on_paper else None,
    )


def logarithmic(axes: Axes) -> None:
    """A logarithmic axis upwards with a label at 1, 2 and 5 of each decade."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_locator(NullLocator())


def settled(figure: Figure) -> Figure:
    """Laid out once, not again for each drawing."""
    import matplotlib

    if layout := figure.get_layout_engine():
        layout.execute(figure)
    with matplotlib.rc_context({"figure.constrained_layout.use": False}):
        figure.set_layout_engine(None)  # "none" leaves a stand-in, for which savefig draws twice
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


def tokens_text(value: float, _: float) -> str:
    """1.5M for 1,500,000."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:g}"
