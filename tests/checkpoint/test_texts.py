"""`lab sample`: what a run's weights write, from any prompt, the same for one seed; what can't be sampled
is named.
"""

import dataclasses
import json

import pytest
import torch

from lab import cli
from lab.commands import places
from lab.data.shards import Shards
from lab.store.run_store import RunStore
from lab.train.continuation import continued
from tests.train.test_sample import Fixed

QUICK = [
    "size=nano",
    "size.d_model=32",
    "size.num_layers=1",
    "size.context_length=32",
    "size.vocab_size=300",
    "batch.tokens_per_step=128",
    "budget.amount=512",
    "data.stories=120",
    "data.validation_stories=12",
    "evaluation.documents=2",
    "tracker=none",
]
ODD = 'Zoë & 猫 said: <|endoftext|> \n\t{"x"} \udcff'


@pytest.fixture(scope="module")
def run(lab):
    assert lab("train", *QUICK) == 0
    return RunStore(places.RESULTS / "runs").ids()[0]


def sampled(capsys, *arguments):
    capsys.readouterr()
    assert cli.main(["sample", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_texts_go_on_from_any_prompt_and_repeat_with_their_seed(run, capsys):
    once, again, other = (
        sampled(capsys, run, "--prompt", ODD, "--count", "3", "--tokens", "40", "--seed", seed)
        for seed in "112"
    )
    assert once == again != other
    assert len({row["text"] for row in once}) == 3 and all(row["step"] == 4 for row in once)
    assert once[0]["prompt"] == ODD.replace("\udcff", "\ufffd") and once[0]["id"] == run
    assert any(
        row["text"] for row in sampled(capsys, run[:4], "--count", "4")
    )  # by its beginning, without a prompt


def test_the_likeliest_tokens_are_those_of_the_weights_in_the_checkpoint(run, capsys):
    """Logits of an optimizer-free model, its context moved along by hand."""
    from lab.data.prepare import prepare
    from lab.model.transformer import Transformer

    store = RunStore(places.RESULTS / "runs")
    config = store.config(run)
    shards = Shards.open(prepare(config.data, config.vocab, cache=places.CACHE, progress=None))
    model, (_, payload) = Transformer(config), store.load_checkpoint(run)
    path = places.RESULTS / "weights.pt"
    path.write_bytes(payload)
    model.load_state_dict(torch.load(path, weights_only=True)["model"])
    ids = [0]
    while len(ids) < 1 + 50 and (len(ids) == 1 or ids[-1]):
        with torch.no_grad():
            ids.append(int(model(torch.tensor([ids[-32:]])).logits[0, -1].argmax()))
    expected = b"".join(shards.vocabulary[i] for i in ids).decode(errors="ignore")
    assert sampled(capsys, run, "--temperature", "0", "--tokens", "50")[0]["text"] == expected


def test_people_read_prompt_and_text(run, capsys):
    capsys.readouterr()
    assert cli.main(["sample", run, "--prompt", "The cat", "--count", "2", "--tokens", "5"]) == 0
    out, err = capsys.readouterr()
    assert (
        out.startswith("--- 1\nThe cat")
        and "\n--- 2\nThe cat" in out
        and err.endswith(f"run {run}, step 4\n")
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zz"], "zz (command line): no such run."),
        (["RUN", "--temperature", "-1"], "--temperature: -1: needs a finite number of 0 or more"),
        (["RUN", "--tokens", "0"], "--tokens: 0: needs a whole number of 1 or more"),
        (["RUN", "--seed", "x"], "--seed: x: needs a whole number from 0"),
    ],
)
def test_bad_input_is_named(run, arguments, message, capsys):
    try:
        code = cli.main(["sample", *(word.replace("RUN", run) for word in arguments)])
    except SystemExit as error:
        code = error.code
    assert code == 2 and message in capsys.readouterr().err


def test_a_run_without_a_sound_checkpoint_is_named(run, capsys, monkeypatch):
    def says(message):
        assert cli.main(["sample", run]) == 2 and message in capsys.readouterr().err

    monkeypatch.setattr(RunStore, "read_checkpoint", lambda *_: None)
    says(f"{run} (command line): no checkpoint of run {run} verifies")
    monkeypatch.setattr(RunStore, "checkpoints", lambda *_: [])
    says(f"{run} (command line): run {run} is finished and has no checkpoint.")


def test_a_changed_tokenizer_is_noticed(run, capsys, monkeypatch):
    manifest = dataclasses.replace(RunStore(places.RESULTS / "runs").manifest(run), tokenizer_hash="x")
    monkeypatch.setattr(RunStore, "manifest", lambda *_: manifest)
    assert cli.main(["sample", run]) == 2
    assert "data=stories now gives another tokenizer" in capsys.readouterr().err


def test_temperature_sharpens_to_the_likeliest():
    model = Fixed([0.0, 1.0, 3.0])
    rows = torch.ones(20, 1, dtype=torch.int64)
    for temperature in (0.0, 1e-3):
        drawn = continued(
            model, rows, length=3, generator=torch.Generator().manual_seed(0), temperature=temperature
        )
        assert (drawn[:, 1:] == 2).all()
