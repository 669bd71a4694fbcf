"""The tree of values is the one that Hydra composes from the same overrides."""

import shutil

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from lab.config.compose import COMPOSITE, CONF, Override, checked, groups
from lab.config.tree import tree

GROUPS = {group: names for group, names in groups().items() if group != "arch"}
VALUES = [
    "seed=3",
    "optimizer.lr=1e-3",
    "size.tokens_per_step=512",
    "evaluation.lengths=[64,128]",
    "stability.qk_norm=true",
    "data.grammar.noise=0.25",
    "init_from='a b@last'",
    "batch.micro_rows=null",
]


def by_hydra(conf, texts):
    with initialize_config_dir(str(conf), version_base="1.3"):
        return OmegaConf.to_container(compose("config", texts), resolve=True)


@pytest.mark.parametrize("turn", range(max(map(len, GROUPS.values()))))
def test_every_option_stands_where_hydra_puts_it(turn):
    """The options of all groups take turns, every other time with single values."""
    texts = [f"{group}={names[turn % len(names)]}" for group, names in GROUPS.items()]
    texts = [
        f"{o.partition('=')[0]}=[{o.partition('=')[2]}]" if o.startswith(COMPOSITE) else o for o in texts
    ]
    texts += ["budget.amount=1e15", *(VALUES if turn % 2 else [])]  # flops have no amount of their own
    assert tree(CONF, texts) == by_hydra(CONF, texts)


def test_options_of_a_list_are_laid_over_each_other_in_their_order():
    for names in ("both,weight_decay", "weight_decay,both", ""):
        texts = [f"regularization=[{names}]", "stability=[z_loss,qk_norm,attention_softcap]"]
        assert tree(CONF, texts) == by_hydra(CONF, texts)


def test_one_composition_leaves_nothing_in_the_next():
    plain = tree(CONF, [])
    tree(CONF, ["size=micro", "data.grammar.noise=0.5", "evaluation.lengths=[64]"])
    assert tree(CONF, []) == plain == by_hydra(CONF, [])


def test_another_folder_is_another_tree(tmp_path):
    shutil.copytree(CONF, tmp_path / "conf")
    path = tmp_path / "conf/size/nano.yaml"
    path.write_text(path.read_text().replace("d_model: 96", "d_model: 64"))
    assert tree(tmp_path / "conf", [])["size"]["d_model"] == 64
    assert tree(CONF, [])["size"]["d_model"] == 96


def test_a_name_that_stands_twice_is_refused():
    _, _, problems = checked([Override("stability=[z_loss,z_loss]")])
    assert problems == [
        "stability = [z_loss,z_loss] (command line): z_loss stands there twice. Write it once."
    ]
