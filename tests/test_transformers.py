"""The same weights in Hugging Face transformers give the same logits and gradients.

Four published architectures meet most of the axes: Llama (pre-norm, SwiGLU, RoPE), Qwen3 (norm of q and k), OLMo 2
(output norm) and Gemma 2 (double norm, GeGLU, both soft-caps).
"""

import dataclasses
import os
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from lab.config import RunConfig, Shape
from lab.model.transformer import Transformer
from tests.tiny_model import STABILITY, build, tiny, tokens

EPS = 1e-6
SHAPE = Shape(
    d_model=32,
    num_layers=2,
    num_heads=4,
    head_dim=12,
    d_ff=48,
    vocab_size=257,
    context_length=64,
    num_kv_heads=None,
)
ONE_HEAD = dataclasses.replace(
    SHAPE, num_heads=1
)  # OLMo 2 normalises q and k over all heads at once: equal for one head
QK_NORM = dataclasses.replace(STABILITY, qk_norm=True)
CAPS = dataclasses.replace(STABILITY, attention_softcap=2.0, output_softcap=3.0)

LINEAR = {
    "attention.q": "self_attn.q_proj",
    "attention.k": "self_attn.k_proj",
    "attention.v": "self_attn.v_proj",
    "attention.out": "self_attn.o_proj",
    "ffn.gate": "mlp.gate_proj",
    "ffn.up": "mlp.up_proj",
    "ffn.down": "mlp.down_proj",
}
QK_NORMS = {"attention.q_norm": "self_attn.q_norm", "attention.k_norm": "self_attn.k_norm"}
PRE_NORMS = {"attention_placement.norm": "input_layernorm", "ffn_placement.norm": "post_attention_layernorm"}
OUTPUT_NORMS = {
    "attention_placement.norm": "post_attention_layernorm",
    "ffn_placement.norm": "post_feedforward_layernorm",
}
DOUBLE_NORMS = {
    "attention_placement.input_norm": "input_layernorm",
    "attention_placement.output_norm": "post_attention_layernorm",
    "ffn_placement.input_norm": "pre_feedforward_layernorm",
    "ffn_placement.output_norm": "post_feedforward_layernorm",
}

ARCHITECTURES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "Llama": ({}, LINEAR | PRE_NORMS),
    "Qwen3": ({"stability": QK_NORM}, LINEAR | PRE_NORMS | QK_NORMS),
    "Olmo2": (
        {"norm_placement": "output", "shape": ONE_HEAD, "stability": QK_NORM},
        LINEAR | OUTPUT_NORMS | QK_NORMS,
    ),
    "Gemma2": ({"norm_placement": "double", "activation": "geglu", "stability": CAPS}, LINEAR | DOUBLE_NORMS),
}


class ExactNorm(nn.Module):
    """RMSNorm as written in the paper. The one in transformers rounds to fp32 on the way, whatever the dtype."""

    def __init__(self, gain: Tensor):
        super().__init__()
        self.weight = nn.Parameter(gain.clone())

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * self.weight


def ours(architecture: str) -> tuple[RunConfig, Transformer]:
    changes, _ = ARCHITECTURES[architecture]
    config = tiny(**{"shape": SHAPE, "norm": {"name": "rmsnorm", "eps": EPS}} | changes)
    model, generator = build(config), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, role in model.roles().items():
            if role == "norm_gain":
                gain = model.get_parameter(name)
                gain += 0.3 * torch.randn(gain.shape, generator=generator)
    return config, model


def theirs(architecture: str, config: RunConfig, model: Transformer) -> tuple[nn.Module, dict[str, str]]:
    """The transformers model with our weights, and {our parameter: theirs}."""
    shape, names = (
        config.shape,
        {"embedding.weight": "model.embed_tokens.weight", "head.weight": "lm_head.weight"},
    )
    gemma = architecture == "Gemma2"
    options: dict[str, Any] = {"hidden_activation": "gelu"} if gemma else {"hidden_act": "silu"}
    if gemma:
        options |= {
            "query_pre_attn_scalar": shape.head_dim,
            "layer_types": ["full_attention"] * shape.num_layers,
        }
        options |= {
            "attn_logit_softcapping": CAPS.attention_softcap,
            "final_logit_softcapping": CAPS.output_softcap,
        }
    other = getattr(transformers, f"{architecture}ForCausalLM")(
        getattr(transformers, f"{architecture}Config")(
            vocab_size=shape.vocab_size,
            hidden_size=shape.d_model,
            intermediate_size=shape.d_ff,
            num_hidden_layers=shape.num_layers,
            num_attention_heads=shape.num_heads,
            num_key_value_heads=shape.num_heads,
            head_dim=shape.head_dim,
            max_position_embeddings=shape.context_length,
            rms_norm_eps=EPS,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
            tie_word_embeddings=False,
            # Written-out attention rounds to fp32 as well; only Gemma 2 needs it, for its soft-cap.
            attn_implementation="eager" if gemma else "sdpa",
            **options,
        )
    ).eval()
    names["final_norm.weight"] = "model.norm.weight"
    for layer in range(shape.num_layers):
        for here, there in ARCHITECTURES[architecture][1].items():
            names[f"blocks.{layer}.{here}.weight"] = f"model.layers.{layer}.{there}.weight"
    assert set(names) == set(model.roles()) and set(names.values()) == {
        name for name, _ in other.named_parameters()
    }
    for here, there in names.items():
        path, value = there.removesuffix(".weight"), model.get_parameter(here).detach()
        if model.roles()[here] == "norm_gain":
            other.set_submodule(path, ExactNorm(value))
        elif here == "embedding.weight" and gemma:
            # Gemma 2 multiplies its embeddings by sqrt(d_model).
            other.get_submodule(path).weight.data = value / other.model.embed_tokens.embed_scale
        else:
            other.get_submodule(path).weight.data = value.clone()
    return other, names


def loss(logits: Tensor, batch: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten())


# transformers computes Gemma 2's softmax in fp32 whatever the dtype, so there is no float64 to compare with.
PRECISIONS = [(name, torch.float32, 1e-5) for name in ARCHITECTURES]
PRECISIONS += [(name, torch.float64, 1e-9) for name in ARCHITECTURES if name != "Gemma2"]


@pytest.mark.parametrize("length", [2, 17, 64])
@pytest.mark.parametrize(("architecture", "dtype", "tolerance"), PRECISIONS, ids=str)
def test_logits_and_gradients_equal_those_of_transformers(
    architecture: str, dtype: torch.dtype, tolerance: float, length: int
) -> None:
    config, model = ours(architecture)
    other, names = theirs(architecture, config, model)
    model, other, batch = model.to(dtype), other.to(dtype), tokens(2, length)

    logits, expected = model(batch).logits, other(batch).logits
    torch.testing.assert_close(logits, expected, rtol=0, atol=tolerance)
    loss(logits, batch).backward()
    loss(expected, batch).backward()
    for here, there in names.items():
        gradient, wanted = model.get_parameter(here).grad, other.get_parameter(there).grad
        if here == "embedding.weight" and architecture == "Gemma2":
            wanted = wanted / other.model.embed_tokens.embed_scale
        torch.testing.assert_close(
            gradient, wanted, rtol=0, atol=tolerance, msg=lambda text, here=here: f"{here}: {text}"
        )
