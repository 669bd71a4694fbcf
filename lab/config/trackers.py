"""The dashboards that a run may be shown at, and what each needs to be installed."""

from importlib.util import find_spec

BOARDS = ("wandb", "trackio", "tensorboard")


def lack(name: str) -> str | None:
    """Why a tracker of BOARDS, or "none", can't be used here; None where it can."""
    if name in BOARDS and find_spec(name) is None:
        extra = "." if name == "wandb" else f".[{name}]"
        return f"its package is not installed. Run: .venv/bin/pip install --editable '{extra}'"
    return None
