"""Weights carried to Hugging Face transformers and back: equal logits and gradients for every preset that
it implements.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lab.checkpoint.export import from_hf, hf_config, to_hf
from lab.config.compose import Override, compose, groups
from lab.config.strict import ConfigError
from lab.plan.budget import resolve
from tests.checkpoint.carried_over import CORPUS, MODELS, PRESETS, TINY, Exact, ours, run_of, theirs
from tests.tiny_model import tokens


def loss(logits: Tensor, batch: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten())


def errors(name: str, dtype: torch.dtype) -> tuple[float, float]:
    """The largest differences of logits and of gradients of the loss, for rows of 2, 17 and 64 tokens."""
    run = run_of(name)
    model = ours(run)
    other = theirs(run, model, dtype)
    model, found = model.to(dtype), []
    for length in (2, 17, 64):
        batch = tokens(2, length)
        model.zero_grad()
        other.zero_grad()
        with Exact():
            expected = other(batch, use_cache=False).logits
        logits = model(batch).logits
        loss(logits, batch).backward()
        loss(expected, batch).backward()
        of_ours = {key: p.grad for key, p in model.named_parameters()}
        nothing = to_hf(run, {key: torch.zeros_like(g) for key, g in of_ours.items()})
        # Gradients go over as weights do, less what is added on the way.
        mapped = {key: g - nothing[key] for key, g in to_hf(run, of_ours).items()}
        of_theirs = {key: p.grad for key, p in other.named_parameters()}
        assert mapped.keys() == of_theirs.keys()
        # A single query reads a single key, whatever their scores say.
        assert length == 2 or all(gradient.any() for gradient in of_theirs.values())
        gradients = max((mapped[key] - of_theirs[key]).abs().max().item() for key in mapped)
        found.append(((logits - expected).abs().max().item(), gradients))
    return max(logits for logits, _ in found), max(gradients for _, gradients in found)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_logits_and_gradients_equal_those_of_transformers(
    name: str, dtype: torch.dtype, tolerance: float
) -> None:
    of_logits, of_gradients = errors(name, dtype)
    assert of_logits <= tolerance and of_gradients <= tolerance


@pytest.mark.parametrize("name", MODELS)
def test_the_architecture_is_the_published_one_and_weights_come_back_as_they_went(name: str) -> None:
    run = run_of(name)
    model = ours(run)
    assert hf_config(run)["architectures"] == [MODELS[name][0]]
    back = from_hf(run, to_hf(run, model.state_dict()))
    assert back.keys() == dict(model.named_parameters()).keys()
    for key, value in back.items():
        torch.testing.assert_close(value, model.get_parameter(key), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["ffn=deepseek_moe"], "ffn = deepseek_moe: .* the nearest in transformers, has dense alone"),
        (["norm_placement=post"], "norm_placement = post: "),
        (["arch=gpt2", "position=sine"], "position = sine: GPT2LMHeadModel, .* has learned alone"),
        (["arch=gpt2", "heads=4", "heads.head_dim=12"], "heads = not filling d_model"),
        (["arch=olmo2", "norm.eps=1e-5"], "norm.eps = 1e-05: Olmo2ForCausalLM"),
        (["arch=bloom", "ffn_ratio=2"], "ffn_ratio = 2.0: BloomForCausalLM"),
        (
            ["arch=gemma2", "pattern.window=7", "pattern.global_position=none"],
            "pattern.global_position = none",
        ),
    ],
)
def test_what_transformers_has_not_is_refused_with_the_axis_in_the_way(
    overrides: list[str], message: str
) -> None:
    run = resolve(compose([*map(Override, (*TINY, *overrides))]), CORPUS)
    for asked in (hf_config, lambda run: to_hf(run, {})):
        with pytest.raises(ConfigError, match=message):
            asked(run)


def test_every_preset_is_carried_over_or_known_to_have_no_counterpart() -> None:
    assert set(groups()["arch"]) - {"none"} - PRESETS.keys() == {"original", "deepseek_moe"}
