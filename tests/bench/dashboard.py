"""Draws what an offline W&B folder holds in the layout of its dashboard, for a page that explains the panels.

    python -m tests.bench.dashboard results/wandb/wandb OUTPUT.png

Reads the client's files with `wandb leet inspect --json` alone: what is in the picture, W&B has.
"""

import io
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from PIL import Image

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D46", "#999999")
SKILL = "val/excess/"


def main(folder: Path, output: Path) -> None:
    """Draw the runs of a folder of W&B into one picture."""
    runs = sorted((read(file) for file in folder.glob("*run-*-*/*.wandb")), key=lambda run: run["name"])
    plt.rcParams.update(
        {"font.size": 7, "axes.titlelocation": "left", "axes.titlesize": 8, "lines.linewidth": 0.9}
    )
    figure = plt.figure(figsize=(10.4, 10.6), dpi=100, layout="constrained")
    grid = figure.add_gridspec(5, 3, height_ratios=[0.5, 1, 1, 1.8, 0.95])
    runs_table(figure.add_subplot(grid[0, :]), runs)
    for axis, key, options in (
        (figure.add_subplot(grid[1, 0]), "train/loss", {}),
        (figure.add_subplot(grid[1, 1]), "val/bpb", {"marker": ".", "markersize": 3}),
        (figure.add_subplot(grid[1, 2]), "lr", {}),
        (figure.add_subplot(grid[2, 0]), "grad/norm", {}),
        (
            figure.add_subplot(grid[2, 1]),
            "spike/grad/norm",
            {"linestyle": "", "marker": "^", "markersize": 4},
        ),
    ):
        for run, colour in zip(runs, COLOURS, strict=False):
            axis.plot(*series(run, key), color=colour, label=run["job_type"], **options)
        axis.set_title(key)
    figure.axes[2].legend(title="job type", frameon=False, loc=(0.7, 0.45))
    for axis in figure.axes[4:6]:
        axis.set_yscale("log")
    shown = next(run for run in runs if run["state"] == "finished")
    skills(figure.add_subplot(grid[2, 2]), shown)
    for column, run in enumerate([shown, next((r for r in runs if r["state"] != "finished"), runs[-1])]):
        picture(figure.add_subplot(grid[3, column]), run)
    samples(figure.add_subplot(grid[3:, 2]), runs)
    layer_lines(figure.add_subplot(grid[4, 0]), shown, "residual/rms/")
    layer_lines(figure.add_subplot(grid[4, 1]), shown, "attention/logit_max/")
    for axis in figure.axes:
        if axis.lines:
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_xlabel("tokens", labelpad=0)
            axis.xaxis.set_major_formatter(lambda tokens, _: f"{tokens / 1000:g}k")
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(160).save(output, optimize=True)


def read(file: Path) -> dict[str, Any]:
    """A run as its records tell it: name, arm, state, rows, summary, and the folder of its media."""
    inspect = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(file)]
    answer = subprocess.run(inspect, capture_output=True, text=True, check=True)
    run: dict[str, Any] = {"rows": [], "summary": {}, "state": "running", "files": file.parent / "files"}
    for record in map(json.loads, answer.stdout.splitlines()):
        if record["type"] == "run":
            told = record["run"]
            run |= {"name": told["display_name"], "job_type": told["job_type"], "tags": told["tags"]}
        elif record["type"] == "history":
            run["rows"].append(record["history"]["item"])
        elif record["type"] == "summary":
            run["summary"] |= record["summary"]["update"]
        elif record["type"] == "config":
            run["state"] = record["config"]["update"].get("state", run["state"])
        elif record["type"] == "exit":
            run["exit"] = record["exit"].get("exit_code", 0)
    return run


def series(run: dict[str, Any], key: str) -> tuple[list[float], list[float]]:
    """(tokens, values) of one key over the rows that have it."""
    rows = [row for row in run["rows"] if key in row]
    return [row["tokens"] for row in rows], [row[key] for row in rows]


def runs_table(axis: Any, runs: list[dict[str, Any]]) -> None:
    """The table of runs, with the columns that the lab's saved view has."""
    columns = (
        "Name",
        "State (exit code)",
        "state",
        "Tags",
        "final/val/bpb",
        "final/spikes/grad/norm/events",
        "final/reason",
    )
    cells = []
    for run in runs:
        bpb = run["summary"].get("final/val/bpb")
        cells.append(
            [
                run["name"],
                f"{'Failed' if run['exit'] else 'Finished'} ({run['exit']})",
                run["state"],
                ", ".join(run["tags"]),
                "" if bpb is None else f"{bpb:.3f}",
                run["summary"].get("final/spikes/grad/norm/events", ""),
                textwrap.shorten(run["summary"].get("final/reason") or "", 64, placeholder=" ..."),
            ]
        )
    table(axis, columns, cells, widths=(0.08, 0.1, 0.07, 0.21, 0.08, 0.16, 0.3))
    axis.set_title("Runs")


def samples(axis: Any, runs: list[dict[str, Any]]) -> None:
    """The first sample of each run, as the table panel shows it."""
    rows = []
    for run in runs:
        if path := next((row["samples.path"] for row in run["rows"] if "samples.path" in row), None):
            rows += json.loads((run["files"] / path).read_text())["data"][:1]
    wrapped = [
        [
            arm,
            seed,
            tokens,
            textwrap.fill(textwrap.shorten(prompt, 70), 18),
            textwrap.fill(textwrap.shorten(text, 220), 27),
        ]
        for arm, seed, tokens, prompt, text in rows
    ]
    table(
        axis,
        ("arm", "seed", "tokens", "prompt", "text"),
        wrapped,
        widths=(0.11, 0.07, 0.11, 0.26, 0.45),
        tall=True,
    )
    axis.set_title("samples")


def table(axis: Any, columns: Any, cells: Any, *, widths: Any, tall: bool = False) -> None:
    """A table without axes; widths are shares of the axis, `tall` leaves room for wrapped text."""
    axis.axis("off")
    box = [0, 0, 1, 1] if cells else [0, 0.8, 1, 0.2]
    drawn = axis.table(
        cells or [[""] * len(columns)], colLabels=columns, colWidths=widths, cellLoc="left", bbox=box
    )
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(5.8 if tall else 6.4)
    for (row, _), cell in drawn.get_celld().items():
        cell.set_linewidth(0.3)
        cell.PAD = 0.03
        if row == 0:
            cell.set_facecolor("#EEEEEE")
            cell.set_height(cell.get_height() * (0.25 if tall else 1))


def skills(axis: Any, run: dict[str, Any]) -> None:
    """What a run pays beyond the floor, a line a skill."""
    names = sorted({key for row in run["rows"] for key in row if key.startswith(SKILL)})
    for name, colour in zip(names, COLOURS, strict=False):
        axis.plot(*series(run, name), color=colour, label=name.removeprefix(SKILL), marker=".", markersize=3)
    axis.set_title(f"{SKILL}* of {run['job_type']}")
    if names:
        axis.legend(frameon=False, ncols=2, fontsize=5.5)


def layer_lines(axis: Any, run: dict[str, Any], prefix: str) -> None:
    """A statistic of every layer of a run, a line a layer."""
    names = sorted({key for row in run["rows"] for key in row if key.startswith(prefix)})
    for i, name in enumerate(names):
        axis.plot(
            *series(run, name),
            color=plt.colormaps["viridis"](i / len(names)),
            label=name.removeprefix(prefix),
        )
    axis.set_title(f"{prefix}* of {run['job_type']}")
    axis.legend(frameon=False, ncols=len(names) or 1, fontsize=5.5)


def picture(axis: Any, run: dict[str, Any]) -> None:
    """The run's picture of its layers, if it has one."""
    axis.axis("off")
    axis.set_title(f"layers of {run['name']} ({run['state']})")
    if path := next((row["layers.path"] for row in run["rows"] if "layers.path" in row), None):
        axis.imshow(plt.imread(run["files"] / path))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
