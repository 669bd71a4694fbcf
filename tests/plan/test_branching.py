"""A branch goes on exactly where its parent stopped, in weights and in text, and one that can't is refused
with the reason.
"""

import dataclasses
import io
import random
from collections import Counter

import pytest
import torch

from lab.config.schema import Schedule, run_config
from lab.config.strict import ConfigError, plain
from lab.data.shards import Reading, Shards
from lab.plan import branch, horizons
from lab.store.identity import run_id
from lab.store.log_line import STEP
from lab.store.run_store import RunStore
from lab.train import loop, worker
from lab.train.worker import work
from tests.hand_shards import write_shards
from tests.tiny_run import job, tiny_run

CONSTANT = Schedule("constant", warmup_fraction=0.0, final_fraction=1.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Shards of 60 documents of 20 to 60 bytes."""
    chance = random.Random(0)
    documents = [[chance.randrange(98, 108) for _ in range(chance.randrange(20, 60))] for _ in range(64)]
    vocabulary = [b"", *(bytes([n]) for n in range(256))]
    path = tmp_path_factory.mktemp("shards") / "s"
    return write_shards(path, documents[:60], documents[60:], vocabulary=vocabulary)


def run_of(**changes):
    return tiny_run(schedule=CONSTANT, data_fingerprint="f", **changes)


def resolved(store, run, *, tokenizer_hash="t"):
    return branch.resolve(run, store, tokenizer_hash=tokenizer_hash, source="command line")


def trained(store, run, folder, **changes):
    """Train a run as the command would, in this process; returns its id."""
    run, parent = resolved(store, run)
    name = run_id(run)
    asked = changes | {"tokenizer_hash": "t", "parent": parent}
    work(job(run, run_id=name, store=store.root, shards=folder, **asked))
    assert store.state(name) in ("finished", "diverged"), store.summary(name)
    return name


@pytest.fixture(scope="module")
def store(folder, tmp_path_factory):
    """A store with one finished run of 12 steps that kept its checkpoints 5 and 10."""
    store = RunStore(tmp_path_factory.mktemp("store"))
    trained(store, run_of(), folder, keep_every=5, checkpoint_seconds=1e9)
    return store


@pytest.fixture(scope="module")
def parent(store):
    return store.ids()[0]


def state(store, name):
    payload = store.read_checkpoint(name, store.checkpoints(name)[-1])
    return torch.load(io.BytesIO(payload), weights_only=True)


def assert_same_weights_and_moments(a, b):
    for name, weight in a["model"].items():
        assert torch.equal(weight, b["model"][name]), name
        for key, moment in a["optimizer"][name].items():
            assert torch.equal(moment, b["optimizer"][name][key]), (name, key)


def test_a_branch_with_the_same_recipe_is_the_uninterrupted_run(store, parent, folder):
    assert store.checkpoints(parent) == [5, 10, 12]
    child = trained(store, run_of(steps=7, init_from=f"{parent}@5"), folder)
    assert_same_weights_and_moments(state(store, child), state(store, parent))
    ours, theirs = (
        [line.number("train/loss") for line in store.metrics(name) if line.kind == STEP]
        for name in (child, parent)
    )
    assert ours == theirs[5:]


def test_a_branch_of_a_branch_is_too(store, parent, folder):
    child = trained(store, run_of(steps=4, init_from=f"{parent}@5"), folder)
    grandchild = trained(store, run_of(steps=3, init_from=f"{child}@last"), folder)
    assert_same_weights_and_moments(state(store, grandchild), state(store, parent))
    about = store.manifest(grandchild).parent
    assert (about.run_id, about.step, about.tokens) == (child, 4, 9 * 4 * 24)
    assert store.record(grandchild).parent == about
    assert store.record(grandchild).config.init_from == f"{child}@4"


def test_a_branch_stopped_and_resumed_repeats_the_whole_one(store, parent, folder, tmp_path, monkeypatch):
    whole = trained(store, run_of(steps=7, seed=3, micro_rows=2, init_from=f"{parent}@5"), folder)
    other, calls = RunStore(tmp_path), iter(range(100))
    store.lend(parent, 5, other)
    run, about = resolved(other, run_of(steps=7, seed=3, micro_rows=2, init_from=f"{parent}@5"))
    of_run = job(run, run_id=whole, store=other.root, shards=folder, parent=about)
    with monkeypatch.context() as patch:
        stop = {"stop": lambda: next(calls) == 3}
        patch.setattr(worker, "train", lambda *args, **options: loop.train(*args, **(options | stop)))
        with pytest.raises(SystemExit):
            work(of_run)
    assert other.checkpoints(whole)[-1] == 3
    (other.folder(parent) / "checkpoint/5.pt").unlink()  # a started branch needs its parent no more
    work(of_run)
    assert_same_weights_and_moments(state(other, whole), state(store, whole))


def test_the_schedule_and_the_seed_are_the_branchs_own(store, parent, folder):
    drop = dataclasses.replace(CONSTANT, name="linear", final_fraction=0.0)
    child = trained(
        store, dataclasses.replace(run_of(steps=4, init_from=f"{parent}@5"), schedule=drop), folder
    )
    rates = [line.number("lr") for line in store.metrics(child) if line.kind == STEP]
    assert rates == pytest.approx([0.0075, 0.005, 0.0025, 0.0])


@pytest.mark.parametrize("position", ["rope", "sine", "none"])
def test_the_context_may_grow_where_positions_have_no_weights(store, folder, position):
    small = dataclasses.replace(tiny_run().shape, context_length=32)
    parent = trained(store, run_of(steps=4, position=position, shape=small), folder)
    large = dataclasses.replace(small, context_length=64)
    longer = run_of(steps=3, rows=2, micro_rows=2, position=position, shape=large, init_from=f"{parent}@last")
    child = trained(store, longer, folder)
    first = state(store, parent)["model"]
    assert state(store, child)["model"].keys() == first.keys()
    assert store.summary(child).tokens == 3 * 2 * 64


def owners(starts, ring):
    """Token -> index of the row it belongs to, by walking the stream."""
    row, found = -1, []
    for token in range(ring):
        row += row + 1 < len(starts) and starts[row + 1] == token
        found.append(row)
    return found


@pytest.mark.parametrize("rows", [0, 7, 30, 64, 200])
def test_what_is_left_of_an_epoch_is_read_once_whatever_the_seed_and_the_length(folder, rows):
    shards = Shards.open(folder)
    short, long = shards.rows(24).tolist(), shards.rows(60).tolist()
    order = [tuple(row) for row in shards.batch(0, seed=1, rows=rows, context_length=24)] if rows else []
    texts = {
        tuple(shards.train_stream[[(s + i) % (shards.train_tokens - 1) for i in range(25)]]): n
        for n, s in enumerate(short)
    }
    assert len(texts) == len(short)
    read = [texts[row] for row in order][rows // len(short) * len(short) :]
    left = [n for n in range(len(short)) if n not in read]
    after = (Reading(1, 24, rows),)
    ours = shards.batch(0, seed=2, rows=max(1, len(left)), context_length=24, after=after)
    assert sorted(texts[tuple(row)] for row in ours)[: len(left)] == left
    ring, of_short = shards.train_tokens - 1, owners(short, shards.train_tokens - 1)
    unread = [start for start in long if of_short[start] in left]
    ours = shards.batch(0, seed=2, rows=max(1, len(unread)), context_length=60, after=after)
    expected = Counter(tuple(shards.train_stream[[(s + i) % ring for i in range(61)]]) for s in unread)
    if unread:
        assert Counter(map(tuple, ours)) == expected


def test_readings_in_one_order_are_one_reading(folder):
    shards = Shards.open(folder)
    total = 4 * len(shards.rows(24))
    whole = shards.batch(0, seed=1, rows=total, context_length=24).tolist()
    for first in (0, 1, 50, 130):
        for second in (0, 9, 100):
            after = (Reading(1, 24, first), Reading(1, 24, second))
            rest = shards.batch(0, seed=1, rows=total - first - second, context_length=24, after=after)
            assert whole[first + second :] == rest.tolist()


def test_identity_includes_the_parent_and_without_one_stays_what_it_was():
    plain = run_of()
    branches = [dataclasses.replace(plain, init_from=f"{name}@5") for name in ("a" * 12, "b" * 12)]
    further = dataclasses.replace(plain, init_from="a" * 12 + "@6")
    assert len({run_id(run) for run in (plain, *branches, further)}) == 4


def changed(part, **values):
    return {part: dataclasses.replace(getattr(tiny_run(), part), **values)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (changed("shape", d_model=48, num_layers=3), "shape.num_layers = 3: the parent has 2."),
        (changed("shape", d_model=48, num_layers=3), "shape.d_model = 48: the parent has 32."),
        (changed("shape", num_heads=6, head_dim=4), "shape.num_heads = 6: the parent has 3."),
        ({"norm": "layernorm"}, "norm = layernorm: the parent has rmsnorm."),
        ({"position": "learned"}, "position = learned: the parent has rope."),
        (changed("stability", qk_norm=True, z_loss=0.1), "stability.qk_norm = true: the parent has false."),
        (changed("embedding", tied=True), "embedding.tied = true: the parent has false."),
        (changed("shape", num_kv_heads=1), "shape.num_kv_heads = 1: the parent has null."),
        (
            changed("stability", qk_norm=True, qk_norm_joint=True),
            "stability.qk_norm = true: the parent has false.",
        ),
        (changed("embedding", normed=True), "embedding.normed = true: the parent has false."),
        ({"block": "parallel"}, "block = parallel: the parent has serial."),
        ({"ffn": "moe"}, "ffn = moe: the parent has dense."),
        ({"bias": "all"}, "bias = all: the parent has norm."),
        (changed("optimizer", name="other"), "optimizer.name = other: the parent has adamw."),
        (changed("vocab", tokenizer="bpe"), "the parent's tokenizer is bytes of 257 tokens, not bpe of 257"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_the_parent_is_refused_with_both_values(store, parent, changes, message):
    with pytest.raises(ConfigError) as error:
        resolved(store, run_of(init_from=f"{parent}@5", **changes))
    assert message in str(error.value)
    assert f"init_from = {parent}@5 (command line)" in str(error.value)


def test_changes_that_make_sense_together_alone_are_judged_together(store, folder):
    """A parallel block has no post-norm, so neither change can be tried on the parent without the other."""
    parent = trained(store, run_of(steps=2, norm_placement="post"), folder)
    with pytest.raises(ConfigError) as error:
        resolved(store, run_of(block="parallel", init_from=f"{parent}@last"))
    refused = "norm_placement = pre: the parent has post. A branch keeps it."
    assert error.value.problems == [f"init_from = {parent}@last (command line): {refused}"]


@pytest.mark.parametrize("pattern", ["window", "strided", "interleaved"])
def test_what_adds_no_parameter_may_change(store, parent, pattern):
    assert resolved(store, run_of(init_from=f"{parent}@10", pattern=pattern))[0].pattern["name"] == pattern


def test_harmless_differences_are_no_refusal(store, parent):
    run = run_of(
        init_from=f"{parent[:6]}@10",
        seed=9,
        activation="glu",
        **changed("stability", z_loss=0.1),
        **changed("regularization", dropout=0.3),
        **changed("precision", dtype="bfloat16"),
    )
    assert resolved(store, run)[0].init_from == f"{parent}@10"


def test_a_tokenizer_of_other_text_is_refused(store, parent):
    with pytest.raises(ConfigError, match="trained on other text"):
        resolved(store, run_of(init_from=f"{parent}@5"), tokenizer_hash="u")


def test_learned_positions_keep_their_context(store, folder):
    parent = trained(store, run_of(steps=2, position="learned"), folder)
    longer = dataclasses.replace(tiny_run().shape, context_length=48)
    with pytest.raises(ConfigError, match="shape.context_length = 48: the parent has 24"):
        resolved(store, run_of(position="learned", shape=longer, init_from=f"{parent}@last"))


def test_a_parent_or_step_that_is_not_there_is_refused_with_what_is(store, parent):
    def refusal(init_from):
        with pytest.raises(ConfigError) as error:
            resolved(store, run_of(init_from=init_from))
        return str(error.value)

    assert "no such run. lab status lists them." in refusal("000000000000@5")
    assert f'Did you mean "{parent}"?' in refusal(f"{parent[:-1]}{(int(parent[-1], 16) + 1) % 16:x}@5")
    wanted = refusal(f"{parent}@7")
    assert "no checkpoint of step 7. Kept: 5, 10, 12." in wanted and "engine.keep_every=7" in wanted


def test_the_beginning_of_an_id_must_be_one_runs_alone(tmp_path):
    store = RunStore(tmp_path)
    for name in ("ab1", "ab2"):
        (store.folder(name)).mkdir()
        (store.folder(name) / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="2 runs start so: ab1, ab2. Write more of the id"):
        resolved(store, run_of(init_from="ab@5"))


def test_a_damaged_checkpoint_is_refused(store, folder, tmp_path):
    other = RunStore(tmp_path)
    name = trained(other, run_of(steps=4), folder, keep_every=2)
    path = other.folder(name) / "checkpoint/2.pt"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ConfigError, match="checkpoint 2 of run .* is damaged. Others: 4."):
        resolved(other, run_of(init_from=f"{name}@2"))


def test_a_branch_whose_parent_is_gone_fails_with_the_reason(store, parent, folder, tmp_path):
    run, about = resolved(store, run_of(init_from=f"{parent}@5"))
    with pytest.raises(SystemExit):
        work(job(run, run_id="r", store=tmp_path, shards=folder, parent=about))
    reason = RunStore(tmp_path).summary("r").reason
    assert f"checkpoint 5 of run {parent}, to start from, is missing" in reason


def test_json_without_the_key_reads_as_no_parent():
    values = plain(run_of())
    del values["init_from"]
    assert run_config(values).init_from is None


def test_a_longer_branch_is_scored_on_more_text_and_the_bound_grows_with_it():
    asked = dataclasses.replace(tiny_run().evaluation, documents=100, bytes=4000)
    run = tiny_run(evaluation=asked)
    found = [horizons.scored(run, number) for number in range(5)]
    assert [(one.points, one.documents, one.bytes) for one in found] == [
        (1, 100, 4000),
        (1, 200, 8000),
        (1, 400, 16000),
        (1, 800, 32000),
        (1, 800, 32000),
    ]
    unbounded = tiny_run(evaluation=dataclasses.replace(asked, bytes=None))
    assert horizons.scored(unbounded, 3) == dataclasses.replace(asked, points=1, documents=800, bytes=None)
