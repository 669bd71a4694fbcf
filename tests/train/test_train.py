"""The training loop: against torch written out by hand, resumed anywhere, under accumulation, and when
numbers go bad.
"""

import dataclasses
import errno
import io
import json
import math
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F

from lab.data.evaluation import evaluation_batches
from lab.data.shards import Shards
from lab.data.stories import generator as stories
from lab.model.initializer import initialize
from lab.model.transformer import Transformer
from lab.store.log_line import DIAGNOSTICS, EVALUATION, SAMPLE, STEP
from lab.store.metric import value_of
from lab.store.run_store import RunStore
from lab.sweep.local import _settle
from lab.train import loop, trainer
from lab.train.evaluate import evaluate
from lab.train.loss import cross_entropy, z_loss
from lab.train.optimizer import optimizer_of, parameter_groups
from lab.train.schedule import factor
from lab.train.snapshot import pack, unpack
from lab.train.worker import DISK_FULL, work
from tests.tiny_model import build, tiny
from tests.tiny_run import DATA, GRAMMAR, job, manifest, tiny_run, trained

pytestmark = pytest.mark.slow


def train(run, shards, root, *, run_id="r", stop=lambda: False):
    store = RunStore(root)
    with store.lease(run_id):
        store.begin(run_id, run, manifest(run_id))
        loop.train(run, Shards.open(shards), store, run_id, device="cpu", checkpoint_seconds=0.0, stop=stop)
    return store


def losses(store, run_id="r"):
    return [line.values["train/loss"].hex() for line in steps_of(store, run_id)]


def steps_of(store, run_id="r"):
    return [line for line in store.metrics(run_id) if line.kind == STEP]


def assert_equal_checkpoints(ours, theirs):
    """Weights and moments of the newest checkpoints, bit for bit."""
    a, b = (
        torch.load(io.BytesIO(store.load_checkpoint("r")[1]), weights_only=True) for store in (ours, theirs)
    )
    assert (a["step"], a["bytes"]) == (b["step"], b["bytes"])
    for name, weight in a["model"].items():
        assert torch.equal(weight, b["model"][name]), name
        for key, moment in a["optimizer"][name].items():
            assert torch.equal(moment, b["optimizer"][name][key]), (name, key)


@pytest.fixture(scope="module")
def whole(shards, tmp_path_factory):
    """An uninterrupted run with dropout, accumulation and every logged signal."""
    return train(run_with_everything(), shards, tmp_path_factory.mktemp("whole"))


def run_with_everything(**changes):
    base = tiny_run()
    return tiny_run(
        regularization=dataclasses.replace(base.regularization, dropout=0.2), micro_rows=2, **changes
    )


def test_losses_equal_a_loop_written_with_torch_alone(shards, tmp_path):
    run = tiny_run()
    store = train(run, shards, tmp_path)
    model, data, o = build(run), Shards.open(shards), run.optimizer
    decayed = [p for n, p in model.named_parameters() if p.ndim == 2 and "embedding" not in n]
    plain = [p for n, p in model.named_parameters() if p.ndim != 2 or "embedding" in n]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
        lr=o.lr,
        betas=(0.9, 0.95),
        eps=1e-8,
    )
    for step in range(1, 13):
        batch = torch.from_numpy(data.batch(step - 1, seed=0, rows=4, context_length=24))
        for group in optimizer.param_groups:
            group["lr"] = o.lr * factor(step, steps=12, schedule=run.schedule)
        loss = F.cross_entropy(model(batch[:, :-1]).logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        line = steps_of(store)[step - 1]
        assert line.number("train/loss") == pytest.approx(loss.item(), rel=1e-5)
        assert line.number("grad/norm") == pytest.approx(norm.item(), rel=1e-4)


@pytest.mark.parametrize("stop_at", [0, 1, 4, 5, 11])
def test_a_run_stopped_and_resumed_repeats_the_whole_one_bit_for_bit(whole, shards, tmp_path, stop_at):
    calls = iter(range(1000))
    store = train(run_with_everything(), shards, tmp_path, stop=lambda: next(calls) == stop_at)
    assert store.state("r") == "lost" and len(losses(store)) == stop_at
    with store.lease("r"):
        loop.train(
            run_with_everything(),
            Shards.open(shards),
            store,
            "r",
            device="cpu",
            checkpoint_seconds=0.0,
            stop=lambda: True,
        )
    assert len(losses(store)) == stop_at  # stopped again before its next step
    train(run_with_everything(), shards, tmp_path)
    assert losses(store) == losses(whole)
    assert_equal_checkpoints(store, whole)
    ours, theirs = (
        dataclasses.replace(of.summary("r"), seconds=None, tokens_per_second=None) for of in (store, whole)
    )
    assert ours == theirs and ours.bpb is not None


def test_each_step_evaluation_and_diagnosis_is_logged_once(whole):
    lines = whole.metrics("r")
    assert [line.step for line in lines if line.kind == STEP] == list(range(1, 13))
    assert [line.step for line in lines if line.kind == EVALUATION] == [4, 8, 12]
    diagnosed = [line for line in lines if line.kind == DIAGNOSTICS]
    assert [line.step for line in diagnosed] == [1, 4, 8, 12]
    layers = {f"{s}/{i}" for s in ("residual/rms", "attention/logit_max") for i in (0, 1)}
    assert (
        layers | {"logits/z", "grad/norm/block_0", "grad/norm/embedding", "grad/norm/head"}
        <= diagnosed[0].values.keys()
    )


def test_layer_gradient_norms_add_up_to_the_whole(whole):
    for line in whole.metrics("r"):
        if line.kind == DIAGNOSTICS:
            total = steps_of(whole)[line.step - 1].number("grad/norm")
            parts = [v for k, v in line.values.items() if k.startswith("grad/norm/")]
            # Diagnosed and logged before clipping: the squares of disjoint parts sum to the square of the
            # whole.
            assert math.sqrt(sum(p * p for p in parts)) == pytest.approx(total, rel=1e-5)


def test_micro_batches_do_not_change_the_loss(shards, tmp_path):
    stores = [train(tiny_run(micro_rows=m), shards, tmp_path / str(m)) for m in (4, 2, 1)]
    curves = [[line.number("train/loss") for line in steps_of(store)] for store in stores]
    assert curves[1] == pytest.approx(curves[0], rel=1e-5) and curves[2] == pytest.approx(curves[0], rel=1e-5)


def test_evaluating_more_often_changes_no_training_loss(whole, shards, tmp_path):
    often = dataclasses.replace(run_with_everything().evaluation, points=12)
    assert losses(train(run_with_everything(evaluation=often), shards, tmp_path)) == losses(whole)


def test_dropout_changes_training_and_never_evaluation(shards, tmp_path):
    stores = {}
    for rate in (0.0, 0.5):
        stores[rate] = train(
            tiny_run(regularization=dataclasses.replace(tiny_run().regularization, dropout=rate)),
            shards,
            tmp_path / str(rate),
        )
    assert losses(stores[0.0]) != losses(stores[0.5])
    reader = Shards.open(shards)
    batches = evaluation_batches(reader, 24, documents=4, rows=2)
    without, with_dropout = (
        evaluate(
            build(tiny_run(regularization=dataclasses.replace(tiny_run().regularization, dropout=rate))),
            batches,
            reader,
            device="cpu",
            autocast=nullcontext(),
        ).values
        for rate in (0.0, 0.5)
    )
    assert without == with_dropout


def test_uniform_predictions_cost_log2_of_the_vocabulary_a_byte(shards):
    """Byte tokens: every byte costs log2(257) bits, and the end of a story as much again for no byte."""
    held_out = list(stories.generate(GRAMMAR, seed=DATA.seed, split="validation", count=4))
    sizes = [len(story.text.encode()) for story in held_out]
    # The floor is known to the last word that ends, with the byte after it, within the first 24 bytes of each
    # story.
    known = [[word for word in story.words if word.end < 24] for story in held_out]
    exact_bytes, floor = sum(words[-1].end for words in known), sum(w.bits for words in known for w in words)

    model = build(tiny_run())
    torch.nn.init.zeros_(model.head.weight)
    reader = Shards.open(shards)
    batches = evaluation_batches(reader, 24, documents=4, rows=2)
    values = evaluate(model, batches, reader, device="cpu", autocast=nullcontext()).values
    assert values["val/loss"] == pytest.approx(math.log(257), rel=1e-6)
    assert values["val/bytes"] == sum(sizes)
    assert values["val/bpb"] == pytest.approx(math.log2(257) * (1 + 4 / sum(sizes)), rel=1e-6)
    assert values["val/floor_bpb"] == pytest.approx(floor / exact_bytes, rel=1e-6)
    # That its last word has ended costs each story one choice of the six kinds of white space and the end, in
    # 257.
    ends = 4 * math.log2(257 / 7) / exact_bytes
    assert values["val/excess_bpb"] == pytest.approx(math.log2(257) + ends - floor / exact_bytes, rel=1e-6)


def test_a_bound_of_bytes_holds_for_the_loss_and_for_the_choices(shards, tmp_path, monkeypatch):
    bound, asked, real = 2500, [], trainer.choice_batches

    def spied(*args, documents, **others):
        asked.append(documents)
        return real(*args, documents=documents, **others)

    monkeypatch.setattr(trainer, "choice_batches", spied)
    stories_held_out = stories.generate(GRAMMAR, seed=DATA.seed, split="validation", count=4)
    sizes = [len(story.text.encode()) for story in stories_held_out]
    assert sum(sizes[:2]) <= bound < sum(sizes[:3])
    run = tiny_run(evaluation=dataclasses.replace(tiny_run().evaluation, bytes=bound))
    two = tiny_run(evaluation=dataclasses.replace(tiny_run().evaluation, documents=2))
    bounded, short = (train(r, shards, tmp_path / str(n)).summary("r") for n, r in enumerate((run, two)))
    assert bounded.measured["val/bytes"] == sum(sizes[:2]) and asked == [2, 2]
    assert bounded.measured == short.measured and bounded.skills == short.skills != {}


def test_a_run_keeps_the_loss_of_its_groups_of_documents_also_where_it_was_killed(
    shards, tmp_path, monkeypatch
):
    summary = train(tiny_run(), shards, tmp_path / "whole").summary("r")
    assert len(summary.group_bpb) == len(summary.group_excess_bpb) == 4  # as many as documents
    assert min(summary.group_bpb) < summary.bpb < max(summary.group_bpb)

    def killed(*args, **others):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop, "_finish", killed)
        train(tiny_run(), shards, tmp_path / "killed")
    assert RunStore(tmp_path / "killed").summary("r") is None
    again = train(tiny_run(), shards, tmp_path / "killed").summary("r")
    assert (again.group_bpb, again.measured) == (summary.group_bpb, summary.measured)


def test_a_run_ends_with_its_skills_and_with_samples(shards, tmp_path):
    store = train(tiny_run(), shards, tmp_path)
    summary, lines = store.summary("r"), store.metrics("r")
    of_skills = sum(skill.excess * skill.words for skill in summary.skills.values())
    exact_bytes = sum(
        b.exact_bytes.sum() for b in evaluation_batches(Shards.open(shards), 24, documents=4, rows=2)
    )
    assert of_skills == pytest.approx(summary.measured["val/excess_bpb"] * exact_bytes, rel=1e-6)
    written = [line for line in lines if line.kind == SAMPLE]
    assert len(written) == 4 and {line.step for line in written} == {12}
    held_out = stories.generate(GRAMMAR, seed=DATA.seed, split="validation", count=4)
    for line, story in zip(written, held_out, strict=True):
        assert story.text.startswith(line.values["prompt"]) and len(line.values["prompt"]) == 11


def test_the_z_loss_shapes_the_gradient_and_not_the_report(shards, tmp_path):
    heavy = dataclasses.replace(tiny_run().stability, z_loss=1.0)
    plain, shaped = (
        train(tiny_run(), shards, tmp_path / "a"),
        train(tiny_run(stability=heavy), shards, tmp_path / "b"),
    )
    assert losses(plain)[0] == losses(shaped)[0]
    assert losses(plain)[1:] != losses(shaped)[1:]


def test_smoothed_targets_shape_the_gradient_and_not_the_report(shards, tmp_path):
    smooth = dataclasses.replace(tiny_run().regularization, label_smoothing=0.5)
    plain, shaped = (
        train(tiny_run(), shards, tmp_path / "a"),
        train(tiny_run(regularization=smooth), shards, tmp_path / "b"),
    )
    assert losses(plain)[0] == losses(shaped)[0]
    assert losses(plain)[1:] != losses(shaped)[1:]


@pytest.mark.parametrize("micro_rows", [4, 1])
def test_smoothed_targets_have_the_gradient_that_torch_gives_them(shards, tmp_path, micro_rows):
    smooth = dataclasses.replace(tiny_run().regularization, label_smoothing=0.3)
    config = tiny_run(regularization=smooth, micro_rows=micro_rows)
    [first, *_] = steps_of(train(config, shards, tmp_path))
    model = Transformer(config)
    initialize(model, init=config.init, seed=config.seed)
    batch = torch.from_numpy(Shards.open(shards).batch(0, seed=config.seed, rows=4, context_length=24))
    logits = model(batch[:, :-1]).logits.flatten(0, 1)
    F.cross_entropy(logits, batch[:, 1:].flatten(), label_smoothing=0.3).backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    assert first.number("grad/norm") == pytest.approx(norm.item(), rel=1e-5)


def test_the_balance_loss_of_experts_weighs_each_micro_batch_by_its_rows(shards, tmp_path):
    """Three rows and one: the loss of a step by hand, cross-entropy over all tokens and the balance loss in
    thirds and one.
    """
    base = tiny(ffn="moe").ffn
    run = tiny_run(ffn=base | {"balance": 1.0}, micro_rows=3)
    [first, *_] = steps_of(train(run, shards, tmp_path))
    model = build(run)
    batch = torch.from_numpy(Shards.open(shards).batch(0, seed=run.seed, rows=4, context_length=24))
    parts = [model(rows[:, :-1]) for rows in batch.split(3)]
    logits = torch.cat([part.logits for part in parts]).flatten(0, 1)
    balance = 0.75 * parts[0].aux + 0.25 * parts[1].aux
    assert parts[0].aux.item() != pytest.approx(parts[1].aux.item(), rel=1e-3)
    (F.cross_entropy(logits, batch[:, 1:].flatten()) + balance).backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    assert first.number("grad/norm") == pytest.approx(norm.item(), rel=1e-5)


def test_micro_batches_of_a_step_have_dropout_masks_of_their_own(shards, tmp_path, monkeypatch):
    keys, real = [], Transformer.forward

    def noted(self, tokens, **options):
        keys.append(options.get("dropout_key"))
        return real(self, tokens, **options)

    monkeypatch.setattr(Transformer, "forward", noted)
    train(run_with_everything(), shards, tmp_path)
    training = [key for key in keys if key is not None]
    assert len(training) == len(set(training)) == 12 * 2


def test_z_loss_gradient_is_twice_log_z_times_softmax():
    logits = torch.randn(
        2, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    ).requires_grad_()
    z = torch.log(torch.exp(logits.detach()).sum(-1, keepdim=True))
    z_loss(logits).backward()
    assert torch.allclose(logits.grad, 2 * z * torch.exp(logits.detach() - z), rtol=1e-5)
    assert cross_entropy(torch.zeros(2, 3, 5), torch.zeros(2, 3, dtype=torch.int64)).item() == pytest.approx(
        6 * math.log(5)
    )


@pytest.mark.parametrize("bad_step", [1, 2, 6, 12])
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_number_that_is_not_finite_ends_the_run_as_diverged(shards, tmp_path, monkeypatch, bad_step, where):
    real = trainer.Trainer.step

    def poisoned(self, step):
        if step == bad_step:
            with torch.no_grad():
                if where == "loss":
                    self.model.head.weight[0, 0] = float("nan")
                else:
                    self.model.embedding.weight.register_hook(lambda g: g * float("inf"))
        return real(self, step)

    monkeypatch.setattr(trainer.Trainer, "step", poisoned)
    store = train(tiny_run(), shards, tmp_path)
    summary = store.summary("r")
    assert summary.state == "diverged" and f"not finite at step {bad_step}" in summary.reason
    assert (summary.bpb is None) == (bad_step < 4)  # evaluated at steps 4, 8 and 12
    saved = store.load_checkpoint("r")
    assert (saved is None) if bad_step == 1 else (saved[0] == bad_step - 1)
    if saved:
        model = Transformer(tiny_run())
        unpack(saved[1], model, optimizer_of(tiny_run(), model), device="cpu")
        assert all(torch.isfinite(p).all() for p in model.parameters())


def test_a_last_step_that_leaves_no_numbers_has_diverged(shards, tmp_path, monkeypatch):
    """Nothing can be sampled from such a model, and its validation loss is none."""
    real = trainer.Trainer.step

    def poisoned(self, step):
        found = real(self, step)
        if step == 12:
            with torch.no_grad():
                self.model.head.weight[0, 0] = float("nan")
        return found

    monkeypatch.setattr(trainer.Trainer, "step", poisoned)
    store = train(tiny_run(), shards, tmp_path)
    summary = store.summary("r")
    assert summary.state == "diverged" and summary.reason == "validation loss not finite at step 12"
    assert summary.bpb is None and summary.warning is None


def test_a_run_that_ends_worse_than_unigrams_finishes_and_has_learnt_nothing(shards, tmp_path):
    hopeless = tiny_run(optimizer=dataclasses.replace(tiny_run().optimizer, lr=1e-12))
    store = train(hopeless, shards, tmp_path)
    summary = store.summary("r")
    assert (summary.state, summary.reason, summary.learnt) == ("finished", None, False)
    assert summary.bpb > summary.unigram_bpb
    assert value_of(store.record("r"), "val/bpb") == summary.bpb
    assert json.loads((tmp_path / "r/summary.json").read_text())["learnt"] is False


def test_a_run_that_ends_better_than_unigrams_has_learnt(shards, tmp_path):
    summary = train(tiny_run(steps=120), shards, tmp_path).summary("r")
    assert summary.bpb < summary.unigram_bpb and summary.learnt is True


def test_a_run_whose_loss_rises_again_to_its_end_has_diverged(shards, tmp_path, monkeypatch):
    real = trainer.Trainer.step

    def rising(self, step):
        found = real(self, step)
        return found._replace(values=found.values | {"train/loss": 1.0 if step < 10 else 2.1})

    monkeypatch.setattr(trainer.Trainer, "step", rising)
    summary = train(tiny_run(), shards, tmp_path).summary("r")
    assert summary.state == "diverged" and summary.reason.startswith(
        "training loss of the last 3 steps is 2.10"
    )
    assert summary.steps == 12 and summary.bpb is not None


def test_moments_go_by_name(shards):
    run = tiny_run()
    model = build(run)
    optimizer = optimizer_of(run, model)
    model(torch.zeros(1, 8, dtype=torch.int64)).logits.sum().backward()
    optimizer.step()
    payload = pack(model, optimizer, step=3, bytes_seen=4)
    other = build(run)
    restored = optimizer_of(run, other)
    assert unpack(payload, other, restored, device="cpu") == (3, 4)
    ours, theirs = dict(model.named_parameters()), dict(other.named_parameters())
    for name in ours:
        assert torch.equal(optimizer.state[ours[name]]["exp_avg"], restored.state[theirs[name]]["exp_avg"]), (
            name
        )
    wider = build(tiny_run(shape=dataclasses.replace(run.shape, d_ff=64)))
    with pytest.raises(RuntimeError, match="size mismatch"):
        unpack(payload, wider, optimizer_of(run, wider), device="cpu")


def test_every_parameter_stands_in_one_optimizer_group():
    model = build(tiny_run(norm="layernorm", position="learned"))
    groups = parameter_groups(model.roles())
    names = [n for group in groups.values() for n in group]
    assert sorted(names) == sorted(n for n, _ in model.named_parameters())
    shapes = {n: p.ndim for n, p in model.named_parameters()}
    matrices = {n for n, ndim in shapes.items() if ndim == 2}
    assert set(groups["decayed"]) == matrices - {"embedding.weight", "position.weight"}


@pytest.mark.parametrize(
    ("write", "state"),
    [("lease", "pending"), ("begin", "pending"), ("save_checkpoint", "lost"), ("finish", "lost")],
)
def test_a_full_disk_fails_no_run(tmp_path, shards, monkeypatch, write, state):
    """It stops with a status of its own, and the sweep with it; with room again the run goes on."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RunStore, write, full)
        with pytest.raises(SystemExit) as ended:
            trained(tiny_run(), run_id="r", store=tmp_path / "runs", shards=shards)
    store = RunStore(tmp_path / "runs")
    assert ended.value.code == DISK_FULL and store.state("r") == state
    waiting: list[str] = []
    with pytest.raises(OSError, match="Make room; the same command goes on"):
        _settle(
            job(tiny_run(), run_id="r", store=store.root, shards=shards), DISK_FULL, {"r": 0}, waiting, store
        )
    trained(tiny_run(), run_id="r", store=tmp_path / "runs", shards=shards)
    assert store.summary("r").steps == 12


def test_a_run_whose_log_lacks_steps_starts_anew_when_retried(tmp_path, shards):
    store = RunStore(tmp_path / "runs")
    whole = job(tiny_run(), run_id="r", store=store.root, shards=shards)
    with pytest.raises(SystemExit):  # paused after 8 of 12 steps
        work(dataclasses.replace(whole, until_step=8))
    log = store.folder("r") / "metrics.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(line[:9] if '"step": 3,' in line else line for line in lines))
    with pytest.raises(SystemExit):
        work(whole)
    reason = store.summary("r").reason
    assert store.state("r") == "failed" and "--retry starts it anew" in reason
    store.reopen("r")
    work(whole)
    assert [line.step for line in steps_of(store)] == list(range(1, 13))


def test_a_failed_run_keeps_its_traceback(tmp_path, shards):
    with pytest.raises(SystemExit):
        trained(tiny_run(), run_id="r", store=tmp_path, shards=tmp_path / "nowhere")
    store = RunStore(tmp_path)
    assert store.state("r") == "failed" and "Traceback" in (store.folder("r") / "error.txt").read_text()
