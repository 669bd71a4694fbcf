"""The loss at several lengths: the same targets at each, the context that it says, and a reason where
there is no such length.
"""

import dataclasses
import io
import math
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from lab.config.compose import Override, compose
from lab.config.schema import run_config
from lab.config.strict import ConfigError, plain
from lab.data.shards import Shards
from lab.model.transformer import Transformer
from lab.store.identity import identity
from lab.store.log_line import EVALUATION, SAMPLE
from lab.store.run_store import RunStore
from lab.train.lengths import MOST_BLOCKS, block_ends, evaluate_lengths, undefined
from tests.hand_shards import write_shards
from tests.tiny_model import MODULES
from tests.tiny_run import tiny_run, trained

pytestmark = pytest.mark.slow

LENGTHS = [1, 2, 4]


class Counting:
    """After t tokens, odds of t to 1 for token 1 against each other one; remembers what it read."""

    def __init__(self, context_length: int):
        self.context_length, self.read = context_length, []

    def extend(self, length: int) -> None:
        self.context_length = length

    def __call__(self, tokens: torch.Tensor) -> SimpleNamespace:
        assert tokens.shape[1] <= self.context_length
        self.read += [(self.context_length, row) for row in tokens.tolist()]
        logits = torch.zeros(*tokens.shape, 10)
        logits[..., 1] = torch.arange(1, tokens.shape[1] + 1).log()
        return SimpleNamespace(logits=logits)


def measured(model, shards, lengths, *, rows=4):
    return evaluate_lengths(model, shards, lengths, rows=rows, device="cpu", autocast=nullcontext())


@pytest.mark.parametrize("rows", [1, 3, 16])
def test_a_loss_that_falls_with_the_context_as_arithmetic_says(tmp_path, rows):
    documents = [[1, 1, 2, 1, 5, 1], [1] * 9 + [3], [1, 9, 1, 1, 1, 1, 1, 1, 1, 1, 4, 1, 1]]
    shards = Shards.open(write_shards(tmp_path / "s", [[1]], documents))
    stream = [token for document in documents for token in (0, *document)] + [0]
    length, model = 3, Counting(3)
    found = measured(model, shards, LENGTHS, rows=rows)
    targets = range(3 * length + 1, 3 * length + 1 + (len(stream) - 1 - 3 * length) // length * length)
    for k in LENGTHS:
        nats = 0.0
        for place, at in enumerate(targets):
            read = (k - 1) * length + place % length + 1  # tokens before it
            nats -= math.log((read if stream[at] == 1 else 1) / (read + 9))
        bytes_ = sum(stream[at] for at in targets)  # id n stands for n bytes
        assert found[f"val/bpb/length_{k}"] == pytest.approx(nats / math.log(2) / bytes_, rel=1e-6)
    assert model.context_length == length


def test_every_length_reads_up_to_the_same_targets(tmp_path):
    document = [1 + i % 9 for i in range(70)]
    shards = Shards.open(write_shards(tmp_path / "s", [[1]], [document, document[::-1]]))
    model = Counting(5)
    measured(model, shards, LENGTHS)
    read = {k: [row for context, row in model.read if context == 5 * k] for k in LENGTHS}
    assert all(len(row) == 5 * k for k in LENGTHS for row in read[k])
    assert len(read[1]) == (142 + 1 - 1) // 5 - 3
    for k in LENGTHS:
        assert [row[-5:] for row in read[k]] == read[1]
    stream = shards.validation_stream.tolist()
    assert read[4][0] == stream[:20] and read[4][1] == stream[5:25]


def test_blocks_lie_evenly_over_long_texts():
    ends = block_ends(10**6, 100, 8)
    assert len(ends) == MOST_BLOCKS and ends[0] == 800 and ends[-1] == 999_900
    steps = set((ends[1:] - ends[:-1]) // 100)
    assert max(steps) - min(steps) == 1
    assert block_ends(801, 100, 8).tolist() == [800] and not len(block_ends(800, 100, 8))


def test_a_text_that_is_too_short_is_named(tmp_path):
    shards = Shards.open(write_shards(tmp_path / "s", [[1]], [[1] * 18]))
    assert measured(Counting(5), shards, LENGTHS) == dict.fromkeys(f"val/bpb/length_{k}" for k in LENGTHS)
    assert undefined(Counting(5), shards, [1, 4]) == dict.fromkeys(
        ("val/bpb/length_1", "val/bpb/length_4"), "the validation text has 20 tokens, and 21 are needed."
    )
    assert undefined(Counting(5), shards, [1, 2]) == {}


def run_of(position: str, lengths: list[int]):
    base = tiny_run(position=position)
    return dataclasses.replace(base, evaluation=dataclasses.replace(base.evaluation, lengths=lengths))


@pytest.mark.parametrize("position", sorted(MODULES["position"].VARIANTS))
def test_a_trained_model_is_scored_as_one_that_was_built_longer(position, shards, tmp_path):
    """Its weights in a model of four times the context, block by block; learned positions end where they
    were trained.
    """
    run, store = run_of(position, LENGTHS), RunStore(tmp_path)
    trained(run, run_id="r", store=tmp_path, shards=shards, checkpoint_seconds=1e9)
    summary, text = store.summary("r"), Shards.open(shards)
    last = [line for line in store.metrics("r") if line.kind == EVALUATION][-1]
    names = [f"val/bpb/length_{k}" for k in LENGTHS]
    measured = summary.measured
    assert [last.number(name) for name in names] == [measured[name] for name in names]
    length = run.shape.context_length
    if not MODULES["position"].VARIANTS[position].any_length:
        assert measured[names[0]] > 0 and measured[names[1]] is measured[names[2]] is None
        assert f"{length} trained positions and none beyond" in summary.undefined_lengths[names[1]]
        assert sorted(summary.undefined_lengths) == names[1:]
        return
    assert summary.undefined_lengths == {}
    longer = Transformer(
        dataclasses.replace(run, shape=dataclasses.replace(run.shape, context_length=4 * length))
    )
    state = torch.load(io.BytesIO(store.load_checkpoint("r")[1]), weights_only=True)["model"]
    longer.load_state_dict(state)
    stream = torch.tensor(text.validation_stream.astype("int64"))
    ends = block_ends(len(stream), length, 4).tolist()
    bytes_ = sum(int((stream[end - length + 1 : end + 1] > 0).sum()) for end in ends)  # ids above 0 are bytes
    for k, name in zip(LENGTHS, names, strict=True):
        nats = 0.0
        for end in ends:
            row = stream[end - k * length : end + 1]
            with torch.no_grad():
                logits = longer(row[None, :-1]).logits[0, -length:]
            nats += float(F.cross_entropy(logits, row[-length:], reduction="sum"))
        assert measured[name] == pytest.approx(nats / math.log(2) / bytes_, rel=1e-5)


def test_asking_changes_nothing_else(shards, tmp_path):
    summaries = []
    for name, lengths in (("plain", []), ("asked", LENGTHS)):
        trained(run_of("rope", lengths), run_id=name, store=tmp_path, shards=shards)
        summary = plain(RunStore(tmp_path).summary(name))
        assert ("undefined_lengths" in summary) == bool(lengths)
        summaries.append({k: v for k, v in summary.items() if "length" not in k and "second" not in k})
        samples = [line for line in RunStore(tmp_path).metrics(name) if line.kind == SAMPLE]
        summaries[-1]["samples"] = samples
    assert summaries[0] == summaries[1]


@pytest.mark.parametrize("lengths", ["[0]", "[1,2,2]", "[65]", "4", "[1.5]"])
def test_lengths_that_are_none_are_refused(lengths):
    assert compose([Override("evaluation.lengths=[1,2,4,8]")]).evaluation.lengths == [1, 2, 4, 8]
    with pytest.raises(
        ConfigError, match=r"evaluation.lengths = .* \(command line\): (\[0\] = 1\.5: )?needs "
    ):
        compose([Override(f"evaluation.lengths={lengths}")])


def test_a_run_that_does_not_ask_keeps_its_name():
    run = run_of("rope", [])
    assert "lengths" not in identity(run)["evaluation"]
    stored = plain(run)
    del stored["evaluation"]["lengths"]
    assert run_config(stored) == run
    assert identity(run_of("rope", [2]))["evaluation"]["lengths"] == [2]
