"""What has a run learnt, skill by skill, next to counting and to what is possible?

Only finished runs on generated stories know it: every word has an exact surprisal there, and a skill that
it tests.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.config.schema import run_config
from lab.config.strict import ConfigError
from lab.report import canvas
from lab.report import skill_figures as pictures
from lab.store.files import write_atomic
from lab.store.run_store import RunStore

TOTAL = "total"


def compare(
    wanted: Sequence[str], store: RunStore, *, cache: Path, figure: Path | None
) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns and rows: words and floor of each skill, and in bits a word the excess of the best n-gram
    table and of each run.

    `wanted`: RUN or LABEL=RUN. The floor and the n-gram are those of the first run's corpus. Writes the
    learning curves as a PNG to `figure`. Raises ConfigError.
    """
    runs = _records(wanted, store)
    first = next(iter(runs.values()))
    counted, excess = _best_ngram(first, cache)
    table, columns = first["summary"]["skills"], ["id", "words", "floor", counted]
    rows: list[dict[str, Any]] = [
        {"id": name, "state": "measured", "words": of["words"], "floor": of["floor"], counted: excess[name]}
        for name, of in table.items()
    ]
    for label, record in runs.items():
        columns += [label, f"{label} right"]
        for row in rows:
            of = record["summary"]["skills"][row["id"]]
            row |= {label: of["excess"], f"{label} right": of["accuracy"]}
    summed = [column for column in columns[2:] if not column.endswith(" right")]
    words = {label: record["summary"]["skills"] for label, record in runs.items()}
    total: dict[str, Any] = {"id": TOTAL, "state": "measured", "words": sum(row["words"] for row in rows)}
    total |= {column: _mean(rows, column, words.get(column, table)) for column in summed}
    if figure:
        with canvas.styled():
            drawn = canvas.settled(pictures.learning(runs, {counted: excess}))
        write_atomic(figure, canvas.png(drawn))
    return columns, [*rows, total | {f"{label} right": None for label in runs}]


def _mean(rows: list[dict[str, Any]], column: str, of_run: dict[str, Any]) -> float:
    """Over all words, in bits a word: runs with other rows are judged on other words."""
    words = [of_run[row["id"]]["words"] for row in rows]
    return float(sum(n * row[column] for n, row in zip(words, rows, strict=True)) / sum(words))


def _records(wanted: Sequence[str], store: RunStore) -> dict[str, dict[str, Any]]:
    runs, problems = {}, []
    for text in wanted:
        label, _, run_id = text.rpartition("=")
        if run_id not in store.ids():
            problems.append(f"{run_id} (command line): no such run. lab status lists them.")
            continue
        record = store.record(run_id)
        if not pictures.known(record["summary"]):
            what = "has not finished" if record["state"] != "finished" else "is not on generated stories"
            problems.append(f"{run_id} (command line): {what}, so its skills are not known.")
            continue
        runs[label or run_id] = record
    if problems:
        raise ConfigError(problems)
    return runs


def _best_ngram(record: dict[str, Any], cache: Path) -> tuple[str, dict[str, float]]:
    """The name and the excess by skill of the order with the least loss on what the run was scored on."""
    from lab.data.ngram import baselines
    from lab.data.prepare import prepare

    config = run_config(record["config"])
    folder = prepare(config.data, config.vocab, cache=cache, progress=None)
    lines = baselines(
        folder, documents=config.evaluation.documents, context_length=config.shape.context_length
    )
    if not lines:
        raise ConfigError(f"data.stories = {config.data.stories}: too many to count n-grams of.")
    best = min(lines, key=lambda line: line.bpb)
    return f"{best.order}-gram", best.skills
