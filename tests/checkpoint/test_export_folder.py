"""`lab export`: transformers loads the folder without code of ours and computes, tokenizes and writes what
the run does.
"""

import json
import os
import random

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

from lab.checkpoint import trained
from lab.commands import places
from lab.config.strict import plain
from lab.data.prepare import prepared_before
from lab.data.shards import Shards
from lab.train.continuation import continued
from tests.tiny_run import tiny_run

pytestmark = pytest.mark.slow

TINY = [
    "size=nano",
    "size.d_model=32",
    "size.num_layers=2",
    "size.head_dim=8",
    "size.context_length=64",
    "batch.tokens_per_step=256",
    "budget.amount=3072",
    "data.stories=120",
    "data.validation_stories=12",
    "evaluation.documents=2",
    "evaluation.choices=0",
    "evaluation.samples=0",
    "tracker=none",
]
FAMILIES = {
    "LlamaForCausalLM": ["size.vocab_size=300"],
    "GPT2LMHeadModel": ["arch=gpt2", "vocab=bytes"],
    "Gemma2ForCausalLM": ["arch=gemma2", "pattern.window=7", "size.vocab_size=300"],
}
ODD = 'Zoë & 猫 said: <|endoftext|> \n\t{"x"}  \x00\u2028 \U0001f408 , .'


@pytest.fixture(scope="module", params=FAMILIES)
def exported(lab, request, tmp_path_factory):
    """(the run as the lab has it, the folder, what the command printed)"""
    before = set(places.store().ids())
    assert lab("train", *TINY, *FAMILIES[request.param]) == 0
    (name,) = set(places.store().ids()) - before
    folder = tmp_path_factory.mktemp("export") / "new" / "model"
    assert lab("export", name[:6], "--to", "hf", folder) == 0
    about = json.loads((folder / "export.json").read_text())
    assert about == {"run_id": name, "step": 12, "architecture": request.param}
    return trained.load(name, places.store(), cache=places.CACHE), folder


def test_logits_and_greedy_texts_are_the_runs(exported):
    run, folder = exported
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()) and model.dtype == torch.float32
    assert type(model).__name__ == json.loads((folder / "export.json").read_text())["architecture"]
    rows = torch.randint(run.config.shape.vocab_size, (3, 64), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours, theirs = run.model(rows).logits, model(rows).logits
    assert ours.std() > 0.05  # weights have a say
    torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=1e-5)
    for row in rows[:, :9]:
        expected = continued(
            run.model, row[None], length=60, generator=torch.Generator().manual_seed(0), temperature=0.0
        )[0].tolist()
        ends = [i for i, token in enumerate(expected) if i > 8 and token == 0]
        written = model.generate(row[None], attention_mask=torch.ones(1, 9, dtype=int), max_new_tokens=51)
        assert written[0].tolist() == expected[: ends[0] + 1 if ends else None]


def test_a_text_that_ends_stops(exported):
    """With every other row of the head lowered, `<|endoftext|>` is the likeliest."""
    _, folder = exported
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.lm_head = torch.nn.Linear(32, model.config.vocab_size)
    torch.nn.init.zeros_(model.lm_head.weight)
    torch.nn.init.zeros_(model.lm_head.bias)
    assert model.generate(torch.tensor([[0, 5, 7]]), max_new_tokens=9)[0].tolist() == [0, 5, 7, 0]


def test_every_text_gets_the_same_ids_after_the_one_it_begins_with(exported):
    run, folder = exported
    tokenizer, draw = AutoTokenizer.from_pretrained(folder), random.Random(0)
    anything = [
        "".join(chr(draw.choice((draw.randrange(1, 0xD800), draw.randrange(32, 127)))) for _ in range(40))
        for _ in range(50)
    ]
    config = run.config
    shards = Shards.open(
        prepared_before(config.data_fingerprint, config.data, config.vocab, cache=places.CACHE, progress=None)
    )
    stories = b"".join(shards.vocabulary[token] for token in shards.validation_stream).decode()
    for text in ("", "a", ODD, stories, *anything):
        ids = run.tokenizer.encode([text])[0]
        assert tokenizer(text, verbose=False).input_ids == [0, *ids]
        assert tokenizer(text, add_special_tokens=False, verbose=False).input_ids == ids
        assert tokenizer.decode([0, *ids, 0], skip_special_tokens=True) == text
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.eos_token_id) == ("<|endoftext|>",) * 2 + (0,)
    assert len(tokenizer) == run.config.shape.vocab_size


def test_tokenizer_and_model_work_together_on_rows_of_unequal_length(exported):
    _, folder = exported
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    batch = tokenizer(["The", "The dog"], return_tensors="pt", padding=True, padding_side="left")
    assert model.generate(**batch, max_new_tokens=3).shape[1] <= batch.input_ids.shape[1] + 3


def test_the_weights_file_is_read_by_the_formats_own_library(exported):
    run, folder = exported
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        assert file.metadata() == {"format": "pt"}
        stored = sum(file.get_tensor(name).numel() for name in file.keys())
    assert stored == sum(p.numel() for p in run.model.parameters())


def test_an_earlier_export_is_replaced_and_nothing_else(exported, lab, capsys, tmp_path):
    _, folder = exported
    name = json.loads((folder / "export.json").read_text())["run_id"]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "model.safetensors").write_bytes(b"")
    assert lab("export", name, "--to", "hf", folder, "--json") == 0
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert json.loads(capsys.readouterr().out)[0]["state"] == "written"
    (tmp_path / "notes.txt").write_text("mine")
    for foreign in (tmp_path, tmp_path / "notes.txt"):
        assert lab("export", name, "--to", "hf", foreign) == 2
        assert "is no earlier export and not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm_placement": {"name": "post"}}, "norm_placement = post: "),
        ({"position": {"name": "sine", "base": 1e4}}, "position = sine: "),
    ],
)
def test_a_run_without_a_counterpart_is_refused_by_its_axis(lab, capsys, tmp_path, changes, message):
    folder = places.RESULTS / "runs" / "abcdef"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(plain(tiny_run(**changes))))
    assert lab("export", "abcdef", "--to", "hf", tmp_path / "out") == 2
    assert f"error: abcdef (command line): {message}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
