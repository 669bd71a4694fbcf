"""Where the project and the material beside it lie."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
THREE_NORMS = ROOT / "tests/three_norms.yaml"  # an ablation without horizons and claims


def report_of(printed: str) -> Path:
    """The page that a sweep's answer names."""
    [line] = [line for line in printed.splitlines() if line.startswith("report: ")]
    return ROOT / line.removeprefix("report: ")
