"""A published sweep written by hand: one claim, two arms, two seeds."""

import json

from tests.synthetic_sweep import sweep


def publish(
    results,
    claim,
    outcome,
    *,
    setting="nano-stories-cpu",
    why="because",
    seconds=60.0,
    overrides=(),
    ablation="an-ablation",
):
    """A published sweep whose verdict says `outcome` of `claim`."""
    folder = results / ablation / setting
    (folder / "figures").mkdir(parents=True)
    (folder / "figures" / "final.png").touch()
    plan, records = sweep({"plain_x1": [1.5, 1.5], "plain_x4": [1.5, 1.5]})
    plan |= {"data": setting.split("-")[1], "overrides": list(overrides)}
    for number, record in enumerate(records):
        record["summary"]["seconds"] = seconds
        record["provenance"] = {
            "device": "a CPU",
            "device_kind": "cpu",
            "commit": f"{number % 2}abc",
            "torch": "2",
        }
        record["counts"] = {"flops_per_token": 1e6}
    found = {"id": claim, "outcome": outcome, "why": why, "seeds": 2, "looks": [2]}
    verdict = {"claims": [found], "confounds": ["one rate for all"]}
    for name, value in (("verdict.json", verdict), ("plan.json", plan)):
        (folder / name).write_text(json.dumps(value))
    (folder / "runs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
