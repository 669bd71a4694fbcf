"""A stand-in module named wandb that keeps what it is sent in a file, and misbehaves on request."""

import sys
import textwrap
from pathlib import Path

import pytest

STAND_IN = """
    import json, os, pathlib, time
    SERVER = pathlib.Path({server!r})

    def load():
        return json.loads(SERVER.read_text()) if SERVER.exists() else {{}}

    class Config:
        def update(self, values, allow_val_change):
            pass

    class Run:
        def __init__(self, run_id, mode, folder):
            self.key, self.summary, self.config = f"{{mode}} {{run_id}}", {{}}, Config()
            self.dir = f"{{folder}}/wandb/run-{{run_id}}/files"
            rows = load().get(self.key, {{"rows": []}})["rows"]
            self.starting_step = rows[-1][0] + 1 if rows else 0
            self.rows = rows

        def log(self, row, step):
            assert not self.rows or step > self.rows[-1][0], "step does not grow"
            self.rows.append([step, row])

        def finish(self, exit_code):
            SERVER.write_text(json.dumps(load() | {{self.key: {{"rows": self.rows, "exit": exit_code}}}}))

        def define_metric(self, *names, **options):
            pass

    def Image(image):
        return image.format

    def Settings(**options):
        return options

    IN_USE = set()

    def teardown(exit_code):
        IN_USE.clear()

    def init(*, id, mode, dir, **options):
        assert id not in IN_USE, f"run ID {{id}} is in use"  # the real one says so after an init that failed
        IN_USE.add(id)
        {on_init}
        IN_USE.remove(id)
        return Run(id, mode, dir)
"""


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, *, on_init: str = "pass") -> Path:
    """Put a module `wandb` first on the path of this process and its children; returns its server's file."""
    server = folder / "server.json"
    (folder / "path").mkdir()
    (folder / "path" / "wandb.py").write_text(
        textwrap.dedent(STAND_IN).format(server=str(server), on_init=on_init)
    )
    monkeypatch.setenv("PYTHONPATH", str(folder / "path"))
    monkeypatch.syspath_prepend(str(folder / "path"))
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    return server
