"""What does the tracker cost a sweep: seconds at start and exit with each broken server, and percent of a
step?

    python -m tests.bench.tracker [servers|overhead] [--steps 150] [--pairs 3] [KEY=VALUE ...]

`servers`: one nano run of `lab train` for each server of tests/wandb_server.py; then the server is mended
and `lab sync` sends the rest. `offline` counts the steps in the client's files when the run has ended,
`synced` those at the server at the end, each once or the benchmark fails. `overhead`: the same run with
tracker=wandb offline and tracker=none in turns; wall and CPU seconds of all processes, and the median
seconds of a training step.
"""

import argparse
import contextlib
import ctypes
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab.store.run_store import RunStore
from tests.wandb_server import SERVERS, WandbServer, serving

TOKENS_PER_STEP = 1024
SMALL = ["data.stories=400", "data.validation_stories=40", "evaluation.documents=16", "engine.workers=1"]
# A command of the lab that says how long its tracker's start and end took.
TIMED = """
import sys, time
from lab import cli
from lab.track import follower as tracker
start, close = tracker.start, tracker.Follower.close
def timed(name, call):
    def run(*arguments, **options):
        began = time.perf_counter()
        try:
            return call(*arguments, **options)
        finally:
            print(f"{name} {time.perf_counter() - began:.3f}")
    return run
tracker.start, tracker.Follower.close = timed("start", start), timed("exit", close)
sys.exit(cli.main(sys.argv[1:]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=("servers", "overhead"))
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--pairs", type=int, default=3)
    options, overrides = parser.parse_known_args()
    run = ["train", *SMALL, f"budget.amount={options.steps * TOKENS_PER_STEP}", *overrides]
    with tempfile.TemporaryDirectory() as folder:
        if options.what != "overhead":
            servers(Path(folder), run, options.steps)
        if options.what != "servers":
            overhead(Path(folder), run, options.pairs)


def servers(folder: Path, run: list[str], steps: int) -> None:
    """A line for each kind of server: start, exit, and steps that were trained, kept offline and synced."""
    train(folder / "warm", [*run, "tracker=none"], {})  # data and file cache
    print(f"{'server':<16}{'start s':>9}{'exit s':>9}{'trained':>9}{'offline':>9}{'synced':>9}")
    for kind in ("good", "no login", "closed port", *SERVERS[1:]):
        print(f"{kind:<16}" + "".join(f"{v:>9}" for v in with_server(folder / kind, kind, run)), flush=True)


def with_server(folder: Path, kind: str, run: list[str]) -> tuple[str, str, int, int, int]:
    port = free_port()
    login = (
        {}
        if kind == "no login"
        else {"WANDB_API_KEY": "k" * 40, "WANDB_BASE_URL": f"http://127.0.0.1:{port}"}
    )
    with serving(kind, port=port) if kind in SERVERS else contextlib.nullcontext() as broken:
        times = train(folder, run, login)
    (run_id,) = RunStore(folder / "runs").ids()
    trained = [m.step for m in RunStore(folder / "runs").metrics(run_id) if m.kind == "step"]
    assert not leftovers(folder), f"{kind}: processes left behind"
    offline = len({step for path in folder.glob("wandb/wandb/*/*.wandb") for step in steps_in(path)})
    with serving("good") as server:
        if isinstance(broken, WandbServer):
            server.runs = broken.runs
        command(folder, ["sync"], {"WANDB_API_KEY": "k" * 40, "WANDB_BASE_URL": server.url})
        assert server.steps(run_id) == trained, f"{kind}: {server.steps(run_id)}"
    return times["start"], times["exit"], len(trained), offline, len(trained)


def train(folder: Path, arguments: list[str], login: dict[str, str]) -> dict[str, str]:
    lines = command(folder, arguments, login).splitlines()
    return dict(line.split() for line in lines if line.startswith(("start ", "exit ")))


def command(folder: Path, arguments: list[str], login: dict[str, str]) -> str:
    places = {
        "LAB_RESULTS": str(folder),
        "LAB_CACHE": str(folder.parent / "cache"),
        "HOME": str(folder.parent),
    }
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WANDB_")} | places | login
    answer = subprocess.run(
        [sys.executable, "-c", TIMED, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        sys.exit(answer.stdout + answer.stderr)
    return answer.stdout


def leftovers(folder: Path) -> list[str]:
    """Processes that hold a file below the folder a second after the command's end."""
    time.sleep(1.0)
    links = [link for link in Path("/proc").glob("[0-9]*/fd/*") if link.is_symlink()]
    found = []
    for link in links:
        with contextlib.suppress(OSError):
            target = os.readlink(link)
            if target.startswith(str(folder)) and link.parts[2] != str(os.getpid()):
                found.append(target)
    return found


def steps_in(path: Path) -> list[int]:
    """The steps in a client's file, by the client's own reader; one cut off by a kill is read up to there."""
    inspect = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(path)]
    lines = subprocess.run(inspect, capture_output=True, text=True, check=False).stdout.splitlines()
    records = [json.loads(line) for line in lines]
    return [record["history"]["step"]["num"] for record in records if record["type"] == "history"]


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def overhead(folder: Path, run: list[str], pairs: int) -> None:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans' CPU time counts too
    found: dict[str, list[tuple[float, float, float]]] = {"none": [], "wandb": []}
    for pair in range(pairs + 1):
        for tracker in ("none", "wandb") if pair % 2 else ("wandb", "none"):
            measured = cost(folder / f"{tracker}{pair}", [*run, f"tracker={tracker}"])
            if pair:  # the first warms up
                found[tracker].append(measured)
    print(f"\n{'tracker=wandb over none':<28}{'median':>9}{'low':>9}{'high':>9}")
    names = ("wall of the command, s", "CPU of all processes, s", "seconds of a step, %")
    for i, name in enumerate(names):
        changes = [w[i] - n[i] for w, n in zip(found["wandb"], found["none"], strict=True)]
        if name.endswith("%"):
            changes = [100 * c / n[i] for c, n in zip(changes, found["none"], strict=True)]
        print(f"{name:<28}{statistics.median(changes):>9.2f}{min(changes):>9.2f}{max(changes):>9.2f}")
    for tracker, rows in found.items():
        wall, cpu, step = (statistics.median(row[i] for row in rows) for i in range(3))
        print(f"tracker={tracker}: wall {wall:.1f} s, CPU {cpu:.1f} s, step {step * 1e3:.1f} ms")


def cost(folder: Path, arguments: list[str]) -> tuple[float, float, float]:
    """(wall seconds, CPU seconds of all processes, median seconds of a step)."""
    before, began = os.times(), time.perf_counter()
    command(folder, arguments, {})
    wall = time.perf_counter() - began
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    (run_id,) = RunStore(folder / "runs").ids()
    lines = RunStore(folder / "runs").metrics(run_id)
    return wall, cpu, statistics.median(line.values["seconds"] for line in lines if line.kind == "step")


if __name__ == "__main__":
    main()
