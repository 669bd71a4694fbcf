"""Weights carried to Hugging Face transformers and back: equal logits and gradients for every preset that
it implements.
"""

import os
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lab.checkpoint.export import from_hf, hf_config, to_hf
from lab.config.compose import Override, compose, groups
from lab.config.schema import RunConfig
from lab.config.strict import ConfigError
from lab.plan.budget import TrainingText, resolve
from tests.tiny_model import build, tokens

CORPUS = TrainingText("fingerprint", bytes_per_token=1.0, train_tokens=10**9, tokenizer_hash="t")
TINY = (
    "size=nano",
    "size.d_model=32",
    "size.num_layers=4",
    "size.head_dim=8",
    "size.context_length=64",
    "vocab.tokenizer=bytes",
    "vocab.value=257",
)
PRESETS = {
    "gpt2": "GPT2LMHeadModel",
    "gpt_neox": "GPTNeoXForCausalLM",
    "bloom": "BloomForCausalLM",
    "llama2": "LlamaForCausalLM",
    "llama3": "LlamaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "command_a": "Cohere2ForCausalLM",
}
MODELS: dict[str, tuple[str, list[str]]] = {
    **{name: (architecture, [f"arch={name}"]) for name, architecture in PRESETS.items()},
    "none": ("LlamaForCausalLM", []),
    "serial neox": ("GPTNeoXForCausalLM", ["arch=gpt_neox", "block=serial", "position=rope"]),
    "biased llama": (
        "LlamaForCausalLM",
        ["arch=llama3", "bias=all", "heads.head_dim=12", "embedding=tied_unscaled"],
    ),
    "qwen2": ("Qwen2ForCausalLM", ["arch=llama3", "bias=qkv"]),
    "qwen3": ("Qwen3ForCausalLM", ["arch=llama3", "norm.eps=1e-6", "stability=qk_norm"]),
    "mistral": ("MistralForCausalLM", ["arch=llama3", "pattern=window", "pattern.window=7"]),
    "windowed mixtral": ("MixtralForCausalLM", ["arch=mixtral", "pattern=window", "pattern.window=7"]),
    "olmo": ("OlmoForCausalLM", ["arch=llama2", "norm=nonparametric"]),
}


def run_of(name: str) -> RunConfig:
    chosen = MODELS[name][1]
    small = ["pattern.window=7"] if name in ("gemma2", "command_a") else []
    return resolve(compose([*map(Override, (*TINY, *chosen, *small))]), CORPUS)


class Exact(TorchFunctionMode):
    """transformers rounds norms, rotations and softmaxes to fp32 on the way, whatever the dtype; here
    float64 stays.

    Tables of angles, which carry no gradient, are in fp32 on both sides.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        first = args[0] if args else None
        if isinstance(first, Tensor) and first.dtype == torch.float64 and first.requires_grad:
            if func is Tensor.float or (
                func is Tensor.to and torch.float32 in (*args[1:], kwargs.get("dtype"))
            ):
                return first
            if func in (F.softmax, torch.softmax, Tensor.softmax):
                kwargs.pop("dtype", None)
        return func(*args, **kwargs)


def ours(name: str) -> tuple[RunConfig, Any]:
    """A model whose every part has a say: matrices of unit scale, gains and biases not the neutral 1 and 0."""
    run = run_of(name)
    model, generator = build(run), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter, role in model.roles().items():
            value = model.get_parameter(parameter)
            if role in ("norm_gain", "norm_bias", "bias"):
                value += 0.3 * torch.randn(value.shape, generator=generator)
            else:
                value.normal_(std=1.0 if role == "position" else value.shape[-1] ** -0.5, generator=generator)
    return run, model


def theirs(run: RunConfig, model: Any, dtype: torch.dtype) -> nn.Module:
    config = transformers.AutoConfig.for_model(**hf_config(run))
    other = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="eager", experts_implementation="eager"
    )
    other.eval()
    answer = other.load_state_dict(to_hf(run, model.state_dict()), strict=False)
    assert not answer.unexpected_keys
    assert answer.missing_keys == (["lm_head.weight"] if run.embedding.tied else [])
    other.tie_weights()
    if run.position["name"] == "alibi" and dtype == torch.float64:
        for layer in other.transformer.h:  # BLOOM's own has sqrt(2 / pi) to eight digits.
            layer.mlp.gelu_impl = nn.GELU("tanh")
    other = other.to(dtype)
    if run.embedding.scaled:  # Gemma's sqrt(d_model) is kept in fp32.
        other.model.embed_tokens.embed_scale = torch.tensor(run.shape.d_model**0.5, dtype=dtype)
    return other


def loss(logits: Tensor, batch: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten())


def errors(name: str, dtype: torch.dtype) -> tuple[float, float]:
    """The largest differences of logits and of gradients of the loss, for rows of 2, 17 and 64 tokens."""
    run, model = ours(name)
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


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_logits_and_gradients_equal_those_of_transformers(
    name: str, dtype: torch.dtype, tolerance: float
) -> None:
    of_logits, of_gradients = errors(name, dtype)
    assert of_logits <= tolerance and of_gradients <= tolerance


@pytest.mark.parametrize("name", MODELS)
def test_the_architecture_is_the_published_one_and_weights_come_back_as_they_went(name: str) -> None:
    run, model = ours(name)
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
