"""What has a run learnt, skill by skill, next to counting and to what is possible?

Only finished runs on generated stories know it: every word has an exact surprisal there, and a skill that
it tests.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from lab.config.strict import ConfigError
from lab.report import canvas
from lab.report import skill_figures as pictures
from lab.store.files import write_atomic
from lab.store.run_record import RunRecord
from lab.store.run_store import RunStore

TOTAL = "total"
Row = dict[str, object]  # what is printed of one skill, by column


def compare(
    wanted: Sequence[str], store: RunStore, *, cache: Path, figure: Path | None
) -> tuple[list[str], list[Row]]:
    """What is printed of each skill, and of all of them together, as names of columns and rows.

    Columns: words and floor of the skill; in bits a word the excess of the best n-gram table and of each run;
    and of each run the share of forced choices that are right. The floor and the n-gram are those of the
    first run's corpus. `wanted` has RUN or LABEL=RUN; the learning curves are written as a PNG to `figure`.
    Raises ConfigError.
    """
    runs = _finished(wanted, store)
    first = next(iter(runs.values()))
    counted, of_counting = _best_ngram(first, cache)
    skills = first.ended.skills
    rows: list[Row] = [
        {"id": name, "state": "measured", "words": of.words, "floor": of.floor, counted: of_counting[name]}
        for name, of in skills.items()
    ]
    total: Row = {"id": TOTAL, "state": "measured", "words": sum(of.words for of in skills.values())}
    total["floor"] = _mean((of.words, of.floor) for of in skills.values())
    total[counted] = _mean((of.words, of_counting[name]) for name, of in skills.items())
    for label, record in runs.items():
        learnt = [record.ended.skills[name] for name in skills]
        for row, of in zip(rows, learnt, strict=True):
            row |= {label: of.excess, f"{label} right": of.accuracy}
        # Runs with other rows are judged on other words.
        total[label] = _mean((of.words, of.excess) for of in learnt)
    total |= {f"{label} right": None for label in runs}
    if figure:
        with canvas.styled():
            drawn = canvas.settled(pictures.learning(runs, {counted: of_counting}))
        write_atomic(figure, canvas.png(drawn))
    of_runs = (column for label in runs for column in (label, f"{label} right"))
    return ["id", "words", "floor", counted, *of_runs], [*rows, total]


def _mean(skills: Iterable[tuple[int, float]]) -> float:
    """The mean over all words, in bits a word, from (words, bits a word) of each skill."""
    found = list(skills)
    return float(sum(words * bits for words, bits in found) / sum(words for words, _ in found))


def _finished(wanted: Sequence[str], store: RunStore) -> dict[str, RunRecord]:
    """The runs asked for, by label. Raises ConfigError, with every one whose skills aren't known."""
    runs: dict[str, RunRecord] = {}
    problems = []
    for text in wanted:
        label, _, run_id = text.rpartition("=")
        if run_id not in store.ids():
            problems.append(f"{run_id} (command line): no such run. lab status lists them.")
            continue
        record = store.record(run_id)
        if record.summary is None or not record.summary.skills:
            what = "has not finished" if record.state != "finished" else "is not on generated stories"
            problems.append(f"{run_id} (command line): {what}, so its skills are not known.")
            continue
        runs[label or run_id] = record
    if problems:
        raise ConfigError(problems)
    return runs


def _best_ngram(record: RunRecord, cache: Path) -> tuple[str, dict[str, float]]:
    """The name and the excess by skill of the order with the least loss on what the run was scored on."""
    from lab.data.ngram import baselines
    from lab.data.prepare import prepared_before

    config = record.config
    folder = prepared_before(config.data_fingerprint, config.data, config.vocab, cache=cache, progress=None)
    lines = baselines(
        folder,
        documents=config.evaluation.documents,
        most_bytes=config.evaluation.bytes,
        context_length=config.shape.context_length,
    )
    if not lines:
        raise ConfigError(f"data.stories = {config.data.stories}: too many to count n-grams of.")
    best = min(lines, key=lambda line: line.bpb)
    return f"{best.order}-gram", best.skills
