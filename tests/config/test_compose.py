"""Overrides and configuration: what is refused, with which fix, and that nothing is guessed."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.config.compose import CONF, Override, checked, compose, expand, groups, leaves, variants
from lab.config.schema import Config, run_config
from lab.config.strict import ConfigError, build, plain
from lab.store.identity import identity, run_id
from tests.tiny_run import tiny_run

REFUSED = [
    ("heads=7", "heads.value = 7 (command line): does not divide d_model 96. Use 4 or 6 or 8"),
    ("size.d_model=0", "size.d_model = 0 (command line): must be from 1 to 65536"),
    ("size.num_layers=0", "size.num_layers = 0 (command line): must be from 1 to 1024"),
    ("size.d_model=1e99", "must be from 1 to 65536"),
    ("size.num_layers=100000000", "must be from 1 to 1024"),
    ("data=text data.path=", "is empty. Give a file or folder, or null"),
    ("heads.head_dim=3", "head size 3 is odd; rotary positions need an even one"),
    ("regularization.dropout=1.5", "must be at least 0 and below 1"),
    ("activation=gleu", 'unknown activation "gleu". Did you mean "glu"?'),
    ("init.embedding_std=0", "all embeddings would start equal to zero"),
    ("optimizer.lr=nan", "must be a finite number"),
    ("optimizer.lr=inf", "must be a finite number"),
    ("optimizer.lr=0", "must be greater than 0"),
    ("optimizer.lr=-1e-3", "must be greater than 0"),
    ("optimizer.lr=1e-3x", "optimizer.lr = 1e-3x (command line): needs a number"),
    ("optimizer.beta2=1.0", "must be at least 0 and below 1"),
    ("regularization.weight_decay=-0.1", "must be from 0 to 100"),
    ("schedule.warmup_fraction=1", "the peak would never be reached"),
    ("schedule.final_fraction=2", "must be between 0 and 1 of the peak"),
    ("schedule=wsd schedule.decay_fraction=0", "must be above 0 and at most 1 of all steps"),
    ("schedule=wsd schedule.decay_fraction=0.96", "warm-up and decay are longer than training"),
    (
        "optimizer=sgd optimizer.momentum=1",
        "optimizer.momentum = 1.0 (command line): must be at least 0 and below 1",
    ),
    ("optimizer=sgd optimizer.nesterov=yes", "optimizer.nesterov = yes (command line): write true or false"),
    (
        "optimizer=sgd optimizer.momentum=0 optimizer.nesterov=true",
        "there is no momentum to look ahead along",
    ),
    (
        "optimizer=muon optimizer.ns_steps=1.5",
        "optimizer.ns_steps = 1.5 (command line): needs a whole number",
    ),
    ("optimizer=muon optimizer.ns_steps=0", "must be from 1 to 99"),
    ("optimizer=lion optimizer.beta3=0.5", 'unknown key. Did you mean "optimizer.beta'),
    ("optimizer.grad_clip=0", "would remove every gradient. Write null to switch clipping off"),
    ("regularization.label_smoothing=1", "must be at least 0 and below 1"),
    ("stability.z_loss=-1e-4", "must be from 0 to 100"),
    ("optimizer=adamw8", 'unknown optimizer "adamw8". Did you mean "adamw"?'),
    ("batch.tokens_per_step=1000", "is not a multiple of the context length 256. Nearest: 1024"),
    ("batch.micro_rows=3", "does not divide the 4 rows of a step"),
    ("budget.amount=10", "is less than one batch of 1024 tokens"),
    ("budget=flops", "budget.amount: must be given"),
    ("evaluation.points=0", "must be greater than 0"),
    ("data=text data.validation_fraction=1.0", "both splits need documents"),
    ("vocab.value=100", "needs 257"),
    ("optimizer.learning_rat=1e-3", 'unknown key. Did you mean "'),
    ("+optimizer.lrr=1e-3", '"+" cannot add keys. Did you mean "optimizer.lr"?'),
    ("+model.typo=1", '"+" cannot add keys'),
    ("++norm.eps=1", '"+" cannot add keys'),
    ("~norm", '"~" cannot remove keys'),
    ("seed=null", "seed = null (command line): needs a whole number"),
    ("heads.value=None", "needs a whole number. Write null for none"),
    ("seed=-1", "from 0 to 4294967295"),
    ("seed=1.5", "needs a whole number"),
    ("seed=true", "needs a whole number"),
    ("precision.compile=2", "write true or false"),
    ("precision.compile=maybe", "write true or false"),
    ("optimizer.lr=1e-3,1e-4", "makes a sweep. Use lab train -m"),
    ("optimizer.lr=[1e-3,1e-4]", "needs a number"),
    ("norm._target_=os.system", "could call arbitrary code"),
    ("hydra.callbacks.x._target_=os.system", "could call arbitrary code"),
    ("hydra/launcher=joblib", "this part of Hydra cannot be changed here"),
    ("hydra.run.dir=/tmp", "this part of Hydra cannot be changed here"),
    ("norm.epps=1e-5", 'norm=rmsnorm has no parameter epps. Did you mean "eps"?'),
    ("norm.name=layernorm", "is chosen by its option. Write norm=layernorm"),
    ("optimizer.name=sgd", "is chosen by its option. Write optimizer=sgd; known: adafactor, adamw, lion"),
    ("size.name=../../x", "is chosen by its option"),
    ("norm.eps=-1", "must be a finite number, 0 or more"),
    ("norm.eps=nan", "must be a finite number, 0 or more"),
    ("data.text_field=${oc.env:HOME}", "write the value itself"),
    ("norm", "not an override. Write norm=VALUE"),
    ("data.path=mine.txt", "data=stories does not read it, for it is generated. Choose data=text"),
    ("data=text data.stories=5", "data=text does not read it; generated stories do."),
    ("budget.tokens=1e6", "unknown key. tokens is an option: write budget=tokens. budget has unit, amount."),
    ("budget.flop=1e6", '"? budget has unit, amount.'),
    ("norm@position=layernorm", '"@" cannot move a group. Write norm=layernorm.'),
    ("evaluation.lengths=[2,1]", "needs different multiples of the context length in order"),
]


@pytest.mark.parametrize(("override", "message"), REFUSED, ids=[o for o, _ in REFUSED])
def test_bad_input_names_the_key_and_the_fix(override, message):
    with pytest.raises(ConfigError) as error:
        compose([Override(text) for text in override.split(" ")])
    assert message in str(error.value)


def test_what_was_typed_stands_whole_in_the_message():
    with pytest.raises(ConfigError, match=r"^optimizer.lr = 'a: b' \(command line\): needs a number.$"):
        compose([Override("optimizer.lr='a: b'")])


def test_messages_show_control_characters_and_are_short():
    """What a terminal would obey is spelt out, wherever it stands in what was typed."""
    typed = ["optimizer.lr=\x1b[2Ja", "seed='\x07'", "nrm\u202e=1", f"optimizer.lr='{'a ' * 5000}'"]
    with pytest.raises(ConfigError) as error:
        compose([Override(text) for text in typed])
    assert len(error.value.problems) == 4
    assert all(problem.isprintable() and len(problem) < 2000 for problem in error.value.problems)
    assert r"optimizer.lr=\x1b[2Ja" in str(error.value) and "needs a number." in error.value.problems[-1]


def test_heads_have_to_fit_the_width_that_the_aspect_chose():
    """At nano an aspect of 6 makes 9 layers of width 64, since 9 * 64^2 = 4 * 96^2."""
    nano = [Override("size=nano"), Override("aspect=6")]
    assert compose([*nano, Override("heads=32")]).heads.value == 32
    assert compose([*nano, Override("size.d_model=100")]).size.d_model == 100
    with pytest.raises(ConfigError, match=r"heads.value = 3 \(command line\): does not divide d_model 64 of"):
        compose([*nano, Override("heads=3")])


def test_the_balancing_loss_of_experts_can_be_switched_off():
    assert compose([Override("ffn=moe"), Override("ffn.balance=0")]).ffn["balance"] == 0.0


def test_all_problems_are_named_at_once():
    bad = ["optimizer.lr=abc", "norm=rmsnrom", "heads=7", "+model.typo=1"]
    with pytest.raises(ConfigError) as error:
        compose([Override(text, "ablations/x.yaml") for text in bad])
    assert len(error.value.problems) == 4
    assert all("(ablations/x.yaml)" in problem for problem in error.value.problems)


@pytest.mark.parametrize("key", ["tracker.project", "+tracker.key", "seed", "tracker.project=[a,"])
@pytest.mark.parametrize("secret", ["hf_abcdefghijklmnopqrstuvwx", "sk-ant-abcd-efgh-ijkl-mnop-qrst"])
def test_a_secret_is_refused_and_not_repeated(key, secret):
    with pytest.raises(ConfigError) as error:
        compose([Override(f"{key}={secret}")])
    assert "looks like a secret" in str(error.value) and secret not in str(error.value)


def test_equal_numbers_are_one_value_however_they_are_spelt():
    assert compose([Override("position.theta=20000")]) == compose([Override("position.theta=2e4")])


def test_one_number_has_one_spelling():
    """Zero and minus zero are equal, and name one run."""
    wanted = "regularization.weight_decay=0.0", "optimizer.lr=1", "ffn.balance=0"
    spelt = "regularization.weight_decay=-0.0", "optimizer.lr=1.0", "ffn.balance=-0.0"
    first, second = (
        compose([Override("ffn=moe"), *(Override(text) for text in texts)]) for texts in (wanted, spelt)
    )
    assert json.dumps(plain(first)) == json.dumps(plain(second))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(leaves())), st.data())
def test_every_misspelt_key_is_refused(key, data):
    at = data.draw(st.integers(0, len(key) - 1))
    misspelt = data.draw(st.sampled_from([key[:at] + key[at + 1 :], key[:at] + "q" + key[at:], key.upper()]))
    if misspelt in leaves() or misspelt in groups() or not misspelt or misspelt.endswith("."):
        return
    assert checked([Override(f"{misspelt}=1")])[2] != []


def test_numbers_and_option_names_mean_one_value():
    assert compose([Override("ffn_ratio=8")]) == compose([Override("ffn_ratio=x8")])
    assert compose([Override("vocab=2048")]) == compose([Override("vocab=bpe_2048")])
    assert compose([Override("heads=6")]).heads.value == 6


def test_the_last_choice_of_an_axis_counts_a_number_or_a_name():
    """A sweep lays the user's overrides over those of its ablation."""

    def chosen(*texts):
        return compose([Override(text) for text in texts])

    assert chosen("ffn_ratio=4", "ffn_ratio=gated_8_3") == chosen("ffn_ratio=gated_8_3")
    assert chosen("ffn_ratio=gated_8_3", "ffn_ratio=4") == chosen("ffn_ratio=4")
    assert chosen("aspect=3", "aspect=size").aspect.value is None


def test_stability_tricks_combine_and_leave_the_rest_neutral():
    stability = compose([Override("stability=[z_loss,qk_norm]")]).stability
    assert (stability.z_loss, stability.qk_norm) == (1e-4, True)
    assert (stability.attention_softcap, stability.output_softcap) == (None, None)
    assert compose([Override("stability=z_loss")]).stability.z_loss == 1e-4


def test_the_baseline_is_the_course_model():
    config = compose([Override("size=nano"), Override("precision=fp32")])
    names = [c["name"] for c in (config.norm_placement, config.norm, config.activation, config.position)]
    assert names == ["pre", "rmsnorm", "swiglu", "rope"]
    assert config.norm["eps"] == 1e-5 and config.position["theta"] == 10_000
    o = config.optimizer
    assert (o.name, o.grad_clip, o.own) == ("adamw", 1.0, {"beta1": 0.9, "beta2": 0.95, "eps": 1e-8})
    assert config.regularization.weight_decay == 0.1 and config.regularization.dropout == 0
    assert (config.schedule.name, config.schedule.warmup_fraction, config.schedule.final_fraction) == (
        "cosine",
        0.05,
        0.1,
    )
    assert not config.embedding.tied


def test_every_option_of_every_group_composes(monkeypatch):
    monkeypatch.setattr(
        "lab.config.trackers.find_spec", lambda package: True
    )  # optional trackers need theirs
    values = {"budget=flops": "budget.amount=1e15", "attention=gqa": "heads=4"}
    for group, options in groups().items():
        for name in options:
            text = f"{group}={name}"
            extra = [Override(values[text])] if text in values else []
            assert isinstance(compose([Override(text), *extra]), Config), text


UNREAD = [
    (("schedule.decay_fraction=0.2",), "schedule=cosine", "schedule=wsd"),
    (("schedule.decay_fraction=0.2", "schedule=linear"), "schedule=linear", "schedule=wsd"),
    (("schedule=constant", "schedule.final_fraction=1"), "schedule=constant", "schedule=cosine or"),
    (("optimizer=sgd", "optimizer.eps=1e-9"), "optimizer=sgd", "optimizer=adamw or optimizer=muon"),
    (("optimizer.momentum=0.9",), "optimizer=adamw", "optimizer=muon or optimizer=sgd"),
]


@pytest.mark.parametrize(("texts", "option", "others"), UNREAD, ids=str)
def test_a_key_that_the_option_never_reads_is_refused_with_those_that_do(texts, option, others):
    with pytest.raises(ConfigError) as error:
        compose([Override(text) for text in texts])
    [problem] = error.value.problems
    assert f"(command line): {option} does not read it; it reads " in problem
    assert f"Leave it out, or choose {others}" in problem


def test_equal_choices_are_one_run_whether_a_key_is_spelt_out_or_not():
    """Once every schedule carried decay_fraction, and 0 was no part of a run's name."""
    run = tiny_run()
    stored = plain(run)
    assert stored["optimizer"] == {
        "name": "adamw",
        "lr": 0.01,
        "beta1": 0.9,
        "beta2": 0.95,
        "eps": 1e-8,
        "grad_clip": 1.0,
    }
    stored["schedule"]["decay_fraction"] = 0.0
    assert run_config(stored) == run and run_id(run_config(stored)) == run_id(run)
    wsd = stored | {"schedule": stored["schedule"] | {"name": "wsd", "decay_fraction": 0.2}}
    assert plain(run_config(wsd)) == wsd and run_id(run_config(wsd)) != run_id(run)


def test_every_variant_of_an_axis_says_what_it_is():
    assert [f"{v.group}={v.name}" for v in variants() if not v.what] == []


def test_multirun_expands_as_hydra_does():
    assert expand(["seed=0,1", "norm=glob(*)", "ffn_ratio=2"]) == [
        [f"seed={seed}", f"norm={norm}", "ffn_ratio=2"]
        for seed in (0, 1)
        for norm in ("layernorm", "none", "nonparametric", "rmsnorm")
    ]
    assert expand(["seed=range(1,4)"]) == [["seed=1"], ["seed=2"], ["seed=3"]]
    with pytest.raises(ConfigError, match="search space is empty"):
        expand(["seed=range(3,3)"])
    with pytest.raises(ConfigError, match="20,000 runs, and at most 10,000 are planned at once"):
        expand(["seed=range(0,10000)", "norm=rmsnorm,layernorm"])


def test_unknown_keys_in_stored_configurations_are_refused():
    problems: list[str] = []
    assert build(Config, {"sed": 1}, problems=problems) is None
    assert 'sed: unknown key. Did you mean "seed"?' in problems


def test_no_yaml_of_the_tree_can_call_code():
    for path in Path(CONF).rglob("*.yaml"):
        assert "_target_" not in path.read_text(), path
    assert "hydra" not in {p.name for p in CONF.iterdir()}


def test_neutral_values_leave_the_identity():
    from tests.tiny_model import tiny

    assert identity(tiny())["stability"] == {}


def test_the_baseline_is_called_what_it_was_before_the_later_axes():
    from lab.plan.budget import TrainingText, resolve

    corpus = TrainingText("fingerprint", bytes_per_token=4.0, train_tokens=10**6, tokenizer_hash="t")
    named = identity(resolve(compose([Override("size=nano")]), corpus))
    recipe = {
        "optimizer",
        "schedule",
        "vocab",
        "precision",
        "evaluation",
        "monitor",
        "steps",
        "rows",
        "micro_rows",
    }
    assert {
        key: value for key, value in named.items() if key not in recipe | {"data_fingerprint", "seed"}
    } == {
        "shape": {
            "d_model": 96,
            "num_layers": 4,
            "num_heads": 3,
            "head_dim": 32,
            "d_ff": 256,
            "vocab_size": 1024,
            "context_length": 256,
        },
        "norm_placement": {"name": "pre"},
        "norm": {"name": "rmsnorm", "eps": 1e-5},
        "activation": {"name": "swiglu"},
        "position": {"name": "rope", "theta": 10000.0},
        "embedding": {"tied": False},
        "init": {"embedding_std": 1.0, "cutoff": 3.0},
        "regularization": {"dropout": 0.0, "weight_decay": 0.1},
        "stability": {},
    }


# --- presets ---


def overridden(*texts):
    return compose([Override("size=nano"), *map(Override, texts)])


def test_a_preset_is_the_sum_of_its_axes_and_leaves_no_name():
    by_hand = overridden(
        "norm=layernorm",
        "bias=all",
        "activation=gelu_tanh",
        "position=learned",
        "embedding=tied_unscaled",
        "init=gpt2",
    )
    assert overridden("arch=gpt2") == by_hand
    assert overridden("arch=none") == overridden()


@pytest.mark.parametrize("name", [p.stem for p in (CONF / "arch").glob("*.yaml")])
@pytest.mark.parametrize("size", ["nano", "small"])
def test_every_preset_can_be_built(name, size):
    from lab.plan.budget import TrainingText, resolve

    corpus = TrainingText("fingerprint", bytes_per_token=4.0, train_tokens=10**9, tokenizer_hash="t")
    resolve(compose([Override(f"size={size}"), Override(f"arch={name}")]), corpus)


def test_what_is_asked_for_outdoes_the_preset_on_either_side_of_it():
    for order in (("norm=rmsnorm", "arch=gpt2"), ("arch=gpt2", "norm=rmsnorm")):
        assert overridden(*order).norm["name"] == "rmsnorm"
    # Another option of a group takes the preset's parameters of that group away with it.
    assert overridden("arch=llama3", "position=learned").position == {"name": "learned"}
    assert overridden("arch=gemma2", "norm=layernorm").norm == {"name": "layernorm", "eps": 1e-5}
    assert overridden("arch=gemma2", "norm.eps=1e-3").norm == {"name": "rmsnorm", "eps": 1e-3}
    assert overridden("arch=gemma2", "stability=[z_loss]").stability.attention_softcap is None
    assert overridden("arch=gpt2", "arch=llama2") == overridden("arch=llama2")


def test_an_unknown_preset_and_what_clashes_with_one_are_named():
    with pytest.raises(ConfigError, match='unknown arch "gtp2". Did you mean "gpt2"?'):
        overridden("arch=gtp2")
    with pytest.raises(ConfigError, match=r"num_kv_heads = 2 \(conf/arch/llama3.yaml\)"):
        overridden("arch=llama3", "heads=3")
    with pytest.raises(ConfigError, match="position=learned has no parameter theta"):
        overridden("arch=gpt2", "position.theta=5")
