"""Mixtures of experts against loops over single tokens in float64, from the papers, and closed forms."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lab.model.activation import VARIANTS as ACTIVATIONS
from lab.model.ffn import FFN, VARIANTS, balance_loss
from tests.tiny_model import build, choice, tiny, tokens

D_MODEL, D_FF = 12, 10
MIXTURES = ["moe", "switch", "deepseek_moe"]


def layer(name: str, *, activation: str = "swiglu", **changes: Any) -> nn.Module:
    parameters = choice("ffn", name) | changes
    del parameters["name"]
    module = VARIANTS[name](D_MODEL, D_FF, ACTIVATIONS[activation], False, **parameters).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=parameter.shape[-1] ** -0.5, generator=generator)
    return module


def inputs(*shape: int) -> Tensor:
    return torch.randn(*shape, D_MODEL, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def network(x: Tensor, gate: Tensor | None, up: Tensor, down: Tensor) -> Tensor:
    hidden = up @ x
    if gate is None:
        return down @ hidden.clamp_min(0.0)
    gated = gate @ x
    return down @ (gated / (1 + torch.exp(-gated)) * hidden)


def by_hand(module: nn.Module, name: str, x: Tensor, top_k: int, balance: float) -> tuple[Tensor, Tensor]:
    """Outputs and balance loss of tokens x [N, d_model], one token and one expert at a time."""
    w = dict(module.named_parameters())
    experts, outputs = len(w["router.weight"]), []
    routed, share = [0] * experts, torch.zeros(experts, dtype=torch.float64)
    for token in x:
        scores = [w["router.weight"][e] @ token for e in range(experts)]
        total = sum(score.exp() for score in scores)
        chosen = sorted(range(experts), key=lambda e: -scores[e])[:top_k]
        among = total if name != "moe" else sum(scores[e].exp() for e in chosen)
        y = torch.zeros(D_MODEL, dtype=torch.float64)
        for e in chosen:
            gate = w["experts.gate"][e] if "experts.gate" in w else None
            y = y + scores[e].exp() / among * network(token, gate, w["experts.up"][e], w["experts.down"][e])
            routed[e] += 1
        for e in range(experts):
            share[e] = share[e] + scores[e].exp() / total
        for s in range(module.shared.up.weight.shape[0] // D_FF if name == "deepseek_moe" else 0):
            rows = slice(s * D_FF, (s + 1) * D_FF)
            gate = w["shared.gate.weight"][rows] if "shared.gate.weight" in w else None
            y = y + network(token, gate, w["shared.up.weight"][rows], w["shared.down.weight"][:, rows])
        outputs.append(y)
    loss = sum(routed[e] / (top_k * len(x)) * share[e] / len(x) for e in range(experts))
    return torch.stack(outputs), balance * experts * loss


@pytest.mark.parametrize("activation", ["swiglu", "relu"])
@pytest.mark.parametrize(
    ("name", "changes", "top_k"),
    [
        ("moe", {}, 2),
        ("moe", {"experts": 5, "top_k": 5}, 5),
        ("switch", {}, 1),
        ("deepseek_moe", {}, 7),
        ("deepseek_moe", {"experts": 6, "top_k": 2, "shared": 3, "balance": 0.5}, 2),
    ],
)
def test_outputs_balance_loss_and_gradients_are_those_of_a_loop_over_tokens(
    name: str, changes: dict[str, Any], top_k: int, activation: str
) -> None:
    module, x = layer(name, activation=activation, **changes), inputs(3, 7)
    y, aux, stats = module(x, diagnostics=True)
    expected, loss = by_hand(module, name, x.flatten(0, 1), top_k, module.balance)
    torch.testing.assert_close(y.flatten(0, 1), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(aux, loss, rtol=1e-12, atol=0)
    assert (
        0 <= stats["router/load_min"] <= 1 <= stats["router/load_max"] <= module.router.out_features / top_k
    )
    direction = inputs(3, 7).sin()
    mine = torch.autograd.grad((y * direction).sum() + aux, list(module.parameters()))
    theirs = torch.autograd.grad((expected * direction.flatten(0, 1)).sum() + loss, list(module.parameters()))
    for got, wanted in zip(mine, theirs, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", MIXTURES)
def test_the_balance_loss_of_even_and_of_one_sided_routing(name: str) -> None:
    module, x = layer(name, balance=0.3), inputs(64)
    experts, top_k = module.router.out_features, module.top_k
    with torch.no_grad():
        module.router.weight.zero_()
        assert module(x, diagnostics=False)[1].item() == pytest.approx(0.3)  # P is uniform, whatever f is
        # The same top_k experts share every token.
        module.router.weight[:top_k] = 1000.0 * x[0] / x[0].norm()
        _, aux, stats = module(x[:1].expand(9, -1), diagnostics=True)
    assert aux.item() == pytest.approx(0.3 * experts / top_k)
    assert stats["router/load_max"].item() == pytest.approx(experts / top_k)
    assert stats["router/load_min"].item() == 0.0


def test_equal_experts_are_one_dense_layer_and_no_token_is_dropped() -> None:
    """Gates that add up to 1 leave the common output as it is, however uneven the routing."""
    module, x = layer("moe"), inputs(40)
    with torch.no_grad():
        module.router.weight *= 50.0
        for weight in (module.experts.gate, module.experts.up, module.experts.down):
            weight.copy_(weight[:1].expand_as(weight))
        dense = FFN(D_MODEL, D_FF, ACTIVATIONS["swiglu"], False).double()
        for part in ("gate", "up", "down"):
            getattr(dense, part).weight.copy_(getattr(module.experts, part)[0])
        torch.testing.assert_close(
            module(x, diagnostics=False)[0], dense(x, diagnostics=False)[0], rtol=0, atol=1e-12
        )


@pytest.mark.parametrize("name", MIXTURES)
def test_the_balance_loss_reaches_the_router_alone_and_layers_add_up(name: str) -> None:
    model, batch = build(tiny(ffn=name)), tokens(2, 12)
    seen = []
    for block in model.blocks:
        block.ffn.register_forward_hook(lambda module, args, output: seen.append(output[1]))
    output = model(batch)
    assert output.aux.item() == pytest.approx(sum(aux.item() for aux in seen)) and output.aux > 0
    gradients = torch.autograd.grad(seen[0], list(model.blocks[0].ffn.parameters()), allow_unused=True)
    names = [n for n, _ in model.blocks[0].ffn.named_parameters()]
    assert [n for n, g in zip(names, gradients, strict=True) if g is not None and g.any()] == [
        "router.weight"
    ]


def test_the_router_computes_in_fp32_under_autocast() -> None:
    module = layer("moe").float()
    seen = []
    module.router.register_forward_hook(lambda module, args, output: seen.append(output.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        y, aux, _ = module(inputs(4).bfloat16(), diagnostics=False)
    assert seen == [torch.float32] and aux.dtype == torch.float32 and y.dtype == torch.bfloat16


def test_balance_loss_and_deepseek_layer_equal_those_of_transformers() -> None:
    from transformers import DeepseekV2Config
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Moe
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    scores = torch.randn(50, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    chosen = torch.zeros(50, 8, dtype=torch.bool).scatter(-1, scores.topk(2).indices, True)
    expected = load_balancing_loss_func((scores,), num_experts=8, top_k=2)  # theirs sums over the chosen
    assert 2 * balance_loss(scores, chosen, top_k=2)[0].item() == pytest.approx(expected.item(), rel=1e-6)

    module, x = layer("deepseek_moe", experts=6, top_k=2, shared=3).float(), inputs(3, 7).float()
    config = DeepseekV2Config(
        hidden_size=D_MODEL,
        num_attention_heads=2,
        moe_intermediate_size=D_FF,
        n_routed_experts=6,
        num_experts_per_tok=2,
        n_shared_experts=3,
        topk_method="greedy",
        routed_scaling_factor=1.0,
        hidden_act="silu",
        mlp_bias=False,
        experts_implementation="eager",
    )
    config._experts_implementation = "eager"
    other, w = DeepseekV2Moe(config), dict(module.named_parameters())
    with torch.no_grad():
        other.gate.weight.copy_(w["router.weight"])
        other.experts.gate_up_proj.copy_(torch.cat([w["experts.gate"], w["experts.up"]], 1))
        other.experts.down_proj.copy_(w["experts.down"])
        for name in ("gate", "up", "down"):
            getattr(other.shared_experts, f"{name}_proj").weight.copy_(w[f"shared.{name}.weight"])
        torch.testing.assert_close(module(x, diagnostics=False)[0], other(x), rtol=0, atol=1e-5)
