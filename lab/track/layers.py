"""How did gradient norm, residual stream and attention logits of each layer move over training, in one
picture?

Heat maps of layers over tokens with one logarithmic colour scale each: a layer that drifts away from the
others, or a step at which all of them jump, shows as a stripe.
"""

import io
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lab.store.log_line import DIAGNOSTICS, LogLine

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = {
    r"grad/norm/block_(\d+)": "gradient norm, before clipping",
    r"residual/rms/(\d+)": "residual stream, RMS after the block",
    r"attention/logit_max/(\d+)": "largest attention logit",
}
Cells = dict[tuple[int, int], float]  # (tokens, layer) -> value


def draw(lines: Iterable[LogLine], *, title: str) -> bytes | None:
    """The picture as a PNG, from the lines of a metrics.jsonl; None where they hold no such signal."""
    diagnostics = [line for line in lines if line.kind == DIAGNOSTICS]
    panels = [(label, cells) for pattern, label in PANELS.items() if (cells := _cells(diagnostics, pattern))]
    if not panels:
        return None
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 0.5 + 1.6 * len(panels)), dpi=110, layout="constrained")
    with matplotlib.rc_context({"font.size": 8, "text.parse_math": False}):
        axes = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
        for axis, (label, cells) in zip(axes, panels, strict=True):
            _heat(figure, axis, cells)
            axis.set_title(label, loc="left")
            axis.set_ylabel("block")
        axes[-1].set_xlabel("tokens")
        figure.suptitle(title, fontsize=9)
        picture = io.BytesIO()
        figure.savefig(picture, format="png")
    return picture.getvalue()


def preload() -> None:
    """Load what `draw` needs, which takes a second, before a run ends and a sweep waits for its picture."""
    import matplotlib.backends.backend_agg
    import matplotlib.colors
    import matplotlib.figure  # noqa: F401


def _cells(lines: Iterable[LogLine], pattern: str) -> Cells:
    return {
        (line.tokens, int(found[1])): value
        for line in lines
        for key, value in line.values.items()
        if (found := re.fullmatch(pattern, key)) and value is not None
    }


def _heat(figure: "Figure", axis: "Axes", cells: Cells) -> None:
    """Pixels of width up to the next measurement; what was not finite or not above 0 stays grey."""
    import numpy as np
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import LogLocator, MaxNLocator

    columns, layers = sorted({tokens for tokens, _ in cells}), max(layer for _, layer in cells) + 1
    values = np.array(
        [[cells.get((t, layer), np.nan) for t in columns] for layer in range(layers)], dtype=float
    )
    values[~(values > 0)] = np.nan
    edges = [*columns, columns[-1] + (columns[-1] - columns[-2] if len(columns) > 1 else 1)]
    axis.set_facecolor("#D9D9D9")
    axis.set_yticks(range(layers))
    if np.isnan(values).all():
        return
    low, high = np.nanmin(values), np.nanmax(values)
    scale = LogNorm(low, high if high > low else low * 1.01)
    mesh = axis.pcolormesh(edges, np.arange(layers + 1) - 0.5, values, norm=scale, cmap="viridis")
    wide = LogLocator(subs=(1, 2, 5)) if high < 1000 * low else LogLocator(numticks=5)
    ticks = wide if high > 10 * low else MaxNLocator(4)
    figure.colorbar(mesh, ax=axis, pad=0.01, ticks=ticks, format="%g").minorticks_off()
