"""Which architectures of Hugging Face transformers are there, what can each express, and what does it call
things?

`FAMILIES` is the table: per architecture what it can have of every axis, its config.json and its tensors.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from lab.checkpoint.export.pieces import Piece, by_head, joined, less_one, pairs_adjacent, same, transposed
from lab.config.schema import RunConfig
from lab.model import pattern
from lab.model.attention import QK_NORM_EPS

PLAIN_ACTS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_tanh": "gelu_pytorch_tanh",
    "silu": "silu",
    "relu2": "relu2",
}
GATED_ACTS = {
    "swiglu": "silu",
    "geglu": "gelu",
    "geglu_tanh": "gelu_pytorch_tanh",
    "reglu": "relu",
    "glu": "sigmoid",
    "bilinear": "linear",
}
ACTS = PLAIN_ACTS | GATED_ACTS


@dataclass(frozen=True)
class Family:
    """One architecture. `allows`: {feature of a run: values it can have}, see `features`."""

    architecture: str
    model_type: str
    allows: dict[str, tuple[Any, ...]]
    config: Callable[[RunConfig], dict[str, Any]]
    pieces: Callable[[RunConfig], Iterator[Piece]]


PRE = {"attention_placement.norm": "input_layernorm", "ffn_placement.norm": "post_attention_layernorm"}
OUTPUT = {
    "attention_placement.norm": "post_attention_layernorm",
    "ffn_placement.norm": "post_feedforward_layernorm",
}
DOUBLE = {
    "attention_placement.input_norm": "input_layernorm",
    "attention_placement.output_norm": "post_attention_layernorm",
    "ffn_placement.input_norm": "pre_feedforward_layernorm",
    "ffn_placement.output_norm": "post_feedforward_layernorm",
}


def _llama(
    run: RunConfig, *, norms: dict[str, str] = PRE, norm: Any = same, qk: Any = same
) -> Iterator[Piece]:
    """The names that most architectures share. `norm` and `qk` pack gains, and the matrices of queries and
    keys.
    """
    yield from (
        same("model.embed_tokens", "embedding"),
        same("lm_head", "head"),
        norm("model.norm", "final_norm"),
    )
    for i in range(run.shape.num_layers):
        here, there = f"blocks.{i}", f"model.layers.{i}"
        for ours, theirs in norms.items():
            yield norm(f"{there}.{theirs}", f"{here}.{ours}")
        for name, heads in (("q", run.shape.num_heads), ("k", run.shape.kv_heads)):
            packed = partial(pairs_adjacent, heads=heads) if qk is pairs_adjacent else same
            yield packed(f"{there}.self_attn.{name}_proj", f"{here}.attention.{name}")
            yield same(f"{there}.self_attn.{name}_norm", f"{here}.attention.{name}_norm")
        yield same(f"{there}.self_attn.v_proj", f"{here}.attention.v")
        yield same(f"{there}.self_attn.o_proj", f"{here}.attention.out")
        for name in ("gate", "up", "down"):
            yield same(f"{there}.mlp.{name}_proj", f"{here}.ffn.{name}")
        yield same(f"{there}.mlp.gate", f"{here}.ffn.router")
        yield joined(
            f"{there}.mlp.experts.gate_up_proj", f"{here}.ffn.experts.gate", f"{here}.ffn.experts.up", dim=1
        )
        yield same(f"{there}.mlp.experts.down_proj", f"{here}.ffn.experts.down")


def _gpt2(run: RunConfig) -> Iterator[Piece]:
    yield from (same("transformer.wte", "embedding"), same("transformer.wpe", "position"))
    yield from (same("transformer.ln_f", "final_norm"), same("lm_head", "head"))
    for i in range(run.shape.num_layers):
        here, there = f"blocks.{i}", f"transformer.h.{i}"
        yield same(f"{there}.ln_1", f"{here}.attention_placement.norm")
        yield same(f"{there}.ln_2", f"{here}.ffn_placement.norm")
        yield transposed(f"{there}.attn.c_attn", *(f"{here}.attention.{name}" for name in "qkv"))
        yield transposed(f"{there}.attn.c_proj", f"{here}.attention.out")
        yield transposed(f"{there}.mlp.c_fc", f"{here}.ffn.up")
        yield transposed(f"{there}.mlp.c_proj", f"{here}.ffn.down")


def _neox(run: RunConfig, *, layers: str, attention: str, whole: dict[str, str]) -> Iterator[Piece]:
    """GPT-NeoX and BLOOM, which differ in what modules are called."""
    yield from (same(theirs, ours) for ours, theirs in whole.items())
    for i in range(run.shape.num_layers):
        here, there = f"blocks.{i}", f"{layers}.{i}"
        for ours, theirs in PRE.items():
            yield same(f"{there}.{theirs}", f"{here}.{ours}")
        fused = (f"{here}.attention.{name}" for name in "qkv")
        yield by_head(f"{there}.{attention}.query_key_value", *fused, heads=run.shape.num_heads)
        yield same(f"{there}.{attention}.dense", f"{here}.attention.out")
        yield same(f"{there}.mlp.dense_h_to_4h", f"{here}.ffn.up")
        yield same(f"{there}.mlp.dense_4h_to_h", f"{here}.ffn.down")


def _rope(run: RunConfig) -> dict[str, Any]:
    parameters = {
        "rope_type": "default",
        "rope_theta": run.position["theta"],
        "partial_rotary_factor": run.position.get("rotary_fraction", 1.0),
    }
    return {"rope_parameters": parameters, "max_position_embeddings": run.shape.context_length}


def _layers(run: RunConfig) -> dict[str, Any]:
    """Windows, and which layers have them."""
    parameters = {key: value for key, value in run.pattern.items() if key != "name"}
    local = [rule.sees is not None for rule in pattern.VARIANTS[run.pattern["name"]](run.shape, **parameters)]
    return {
        "sliding_window": run.pattern.get("window"),
        "layer_types": ["sliding_attention" if windowed else "full_attention" for windowed in local],
    }


def _llama_config(run: RunConfig) -> dict[str, Any]:
    s, act = run.shape, ACTS[run.activation["name"]]
    biased = run.bias["name"] == "all"
    return {
        "hidden_size": s.d_model,
        "intermediate_size": s.d_ff,
        "num_hidden_layers": s.num_layers,
        "num_attention_heads": s.num_heads,
        "num_key_value_heads": s.kv_heads,
        "head_dim": s.head_dim,
        "hidden_act": act,
        "rms_norm_eps": run.norm["eps"],
        "attention_bias": biased,
        "mlp_bias": biased,
        **_rope(run),
    }


def _mistral_config(run: RunConfig) -> dict[str, Any]:
    return _llama_config(run) | {"sliding_window": run.pattern.get("window")}


def _mixtral_config(run: RunConfig) -> dict[str, Any]:
    """Their balance loss pools all layers and isn't divided by top_k: equal to ours where experts are
    evenly used.
    """
    f = run.ffn
    return _mistral_config(run) | {
        "num_local_experts": f["experts"],
        "num_experts_per_tok": f["top_k"],
        "router_aux_loss_coef": f["balance"] * run.shape.num_layers / f["top_k"],
    }


def _gemma2_config(run: RunConfig) -> dict[str, Any]:
    caps = run.stability
    return (
        _llama_config(run)
        | _layers(run)
        | {
            "hidden_activation": ACTS[run.activation["name"]],
            "query_pre_attn_scalar": run.shape.head_dim,
            "attn_logit_softcapping": caps.attention_softcap,
            "final_logit_softcapping": caps.output_softcap,
        }
    )


def _cohere2_config(run: RunConfig) -> dict[str, Any]:
    scale = run.shape.d_model**-0.5 if run.embedding.tied and run.embedding.head_scaled else 1.0
    return _llama_config(run) | _layers(run) | {"layer_norm_eps": run.norm["eps"], "logit_scale": scale}


def _gpt2_config(run: RunConfig) -> dict[str, Any]:
    s = run.shape
    return {
        "n_positions": s.context_length,
        "n_embd": s.d_model,
        "n_layer": s.num_layers,
        "n_head": s.num_heads,
        "n_inner": s.d_ff,
        "activation_function": ACTS[run.activation["name"]],
        "layer_norm_epsilon": run.norm["eps"],
        "embd_pdrop": run.regularization.dropout,
        "resid_pdrop": run.regularization.dropout,
        "attn_pdrop": 0.0,
    }


def _neox_config(run: RunConfig) -> dict[str, Any]:
    return _llama_config(run) | {
        "layer_norm_eps": run.norm["eps"],
        "use_parallel_residual": run.block["name"] == "parallel_two_norms",
    }


def _bloom_config(run: RunConfig) -> dict[str, Any]:
    s = run.shape
    return {
        "hidden_size": s.d_model,
        "n_layer": s.num_layers,
        "n_head": s.num_heads,
        "layer_norm_epsilon": run.norm["eps"],
        "seq_length": s.context_length,
    }


LLAMA: dict[str, tuple[Any, ...]] = {
    "block": ("serial",),
    "norm_placement": ("pre",),
    "norm": ("rmsnorm",),
    "activation": tuple(GATED_ACTS),
    "position": ("rope",),
    "bias": ("none", "norm"),
    "pattern": ("full",),
    "ffn": ("dense",),
    "pattern.global_position": ("keep",),
    "embedding": ("untied", "tied"),
    "embedding.scaled": (False,),
    "embedding.normed": (False,),
    "stability.qk_norm": (False,),
    "stability.qk_norm_joint": (False,),
    "stability.attention_softcap": (None,),
    "stability.output_softcap": (None,),
}
QK = {"stability.qk_norm": (True,), "norm.eps": (QK_NORM_EPS,)}
WHOLE_HEADS = {"heads": ("filling d_model",), "attention.num_kv_heads": ("all",)}
LAYERNORM = {"norm": ("layernorm",), "bias": ("all",), "activation": tuple(PLAIN_ACTS)}
NEOX = {
    "embedding": "gpt_neox.embed_in",
    "final_norm": "gpt_neox.final_layer_norm",
    "head": "lm_head",
}
BLOOM = {
    "embedding": "transformer.word_embeddings",
    "embedding_norm": "transformer.word_embeddings_layernorm",
    "final_norm": "transformer.ln_f",
    "head": "lm_head",
}

FAMILIES = (
    Family("LlamaForCausalLM", "llama", LLAMA | {"bias": ("none", "norm", "all")}, _llama_config, _llama),
    Family("Qwen2ForCausalLM", "qwen2", LLAMA | {"bias": ("qkv",)}, _llama_config, _llama),
    Family("Qwen3ForCausalLM", "qwen3", LLAMA | QK, _llama_config, _llama),
    Family("MistralForCausalLM", "mistral", LLAMA | {"pattern": ("window",)}, _mistral_config, _llama),
    Family(
        "MixtralForCausalLM",
        "mixtral",
        LLAMA | {"ffn": ("moe",), "pattern": ("full", "window")},
        _mixtral_config,
        _llama,
    ),
    Family(
        "OlmoForCausalLM",
        "olmo",
        LLAMA | {"norm": ("nonparametric",), "norm.eps": (1e-5,)},
        _llama_config,
        _llama,
    ),
    Family(
        "Olmo2ForCausalLM",
        "olmo2",
        LLAMA | QK | {"stability.qk_norm_joint": (True,), "norm_placement": ("output",)},
        _llama_config,
        partial(_llama, norms=OUTPUT),
    ),
    Family(
        "Gemma2ForCausalLM",
        "gemma2",
        LLAMA
        | {
            "norm_placement": ("double",),
            "embedding.scaled": (True,),
            "pattern": ("full", "window", "interleaved"),
        }
        | {f"stability.{cap}_softcap": (None, "a number") for cap in ("attention", "output")},
        _gemma2_config,
        partial(_llama, norms=DOUBLE, norm=less_one),
    ),
    Family(
        "Cohere2ForCausalLM",
        "cohere2",
        LLAMA
        | {"block": ("parallel",), "norm": ("layernorm",), "bias": ("none",), "heads": ("filling d_model",)}
        | {"embedding": ("tied and scaled", "tied", "untied")}
        | {"pattern": ("interleaved",), "pattern.global_position": ("none",)},
        _cohere2_config,
        partial(_llama, norms={"placement.norm": "input_layernorm"}, qk=pairs_adjacent),
    ),
    Family(
        "GPT2LMHeadModel",
        "gpt2",
        LLAMA | LAYERNORM | WHOLE_HEADS | {"position": ("learned",)},
        _gpt2_config,
        _gpt2,
    ),
    Family(
        "GPTNeoXForCausalLM",
        "gpt_neox",
        LLAMA
        | LAYERNORM
        | WHOLE_HEADS
        | {"block": ("parallel_two_norms", "serial"), "position": ("rope", "rope_partial")},
        _neox_config,
        partial(_neox, layers="gpt_neox.layers", attention="attention", whole=NEOX),
    ),
    Family(
        "BloomForCausalLM",
        "bloom",
        LLAMA
        | LAYERNORM
        | WHOLE_HEADS
        | {
            "position": ("alibi",),
            "activation": ("gelu_tanh",),
            "embedding.normed": (True,),
            "ffn_ratio": (4.0,),
        },
        _bloom_config,
        partial(_neox, layers="transformer.h", attention="self_attention", whole=BLOOM),
    ),
)
