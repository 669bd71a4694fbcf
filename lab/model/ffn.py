"""What does the feed-forward layer compute?

Contract: a module built as `variant(d_model, d_ff, activation, bias, **YAML)` that maps [..., d_model], each
position on its own, to (the same shape, auxiliary loss, statistics). Only a dense network may have biases. A
network of width d_ff has 2 d_model d_ff weights where the activation is plain, 3 where it gates (Shazeer
2020, 2002.05202, eq. 5 and 6). d_ff is the width of one expert.
- dense: one network.
- moe: a router scores `experts` networks, the `top_k` best are summed with the softmax of their scores.
  Mixtral (2401.04088), section 2.1.
- switch: the best expert alone, times its share of the softmax over all. Fedus et al. 2021 (2101.03961), eq.
  1 and 2.
- deepseek_moe: `shared` experts that every token passes, and the `top_k` best of many narrow ones, each times
  its share of the softmax over all. Dai et al. 2024 (2401.06066), eq. 9 to 11.

No expert has a capacity and no token is dropped. Every expert computes every token and a mask of weights
picks (the executed FLOPs are those of all experts): exact, and no shape depends on data. The auxiliary loss
is balance * experts / top_k * sum_i f_i P_i, f_i the share of tokens that expert i gets and P_i its mean
softmax share over all tokens (Switch, eq. 4 to 6; DeepSeekMoE, eq. 12 to 14): balance where both are uniform,
up to experts / top_k times it.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.config.strict import ConfigError
from lab.model.activation import Activation
from lab.model.linear import Linear, ResidualLinear, ValueLinear
from lab.model.published import AT_ANY_VALUE, Counterpart, counterpart, every_but

Flow = tuple[Tensor, Tensor, dict[str, Tensor]]  # the stream or a part of it, auxiliary loss, statistics


class FFN(nn.Module):
    """One network: plain, W_down f(W_up x), or gated, W_down (f(W_gate x) * W_up x)."""

    def __init__(self, d_model: int, d_ff: int, activation: Activation, bias: bool):
        super().__init__()
        self.activation = activation.function
        # Two matrices: one fused matrix for both measured no faster on a CPU.
        self.gate = Linear(d_model, d_ff, bias=bias) if activation.gated else None
        self.up = ValueLinear(d_model, d_ff, bias=bias)
        self.down = ResidualLinear(d_ff, d_model, bias=bias)

    @staticmethod
    def networks_passed(**parameters: object) -> int:
        """How many networks of width d_ff a token passes, from the variant's YAML."""
        return 1

    def forward(self, x: Tensor, *, diagnostics: bool) -> Flow:
        return self.network(x), x.new_zeros(()), {}

    def network(self, x: Tensor) -> Tensor:
        """The network without the loss and the statistics that the contract asks for."""
        if self.gate is None:
            return self.down(self.activation(self.up(x)))
        return self.down(self.activation(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """`experts` networks side by side; `active_share` of their weights work for a token."""

    roles = {"gate": "linear", "up": "value", "down": "residual"}

    def __init__(self, d_model: int, d_ff: int, activation: Activation, *, experts: int, top_k: int):
        super().__init__()
        self.activation, self.active_share = activation.function, top_k / experts
        wide = (experts, d_ff, d_model)
        self.gate = nn.Parameter(torch.empty(wide)) if activation.gated else None
        self.up = nn.Parameter(torch.empty(wide))
        self.down = nn.Parameter(torch.empty(experts, d_model, d_ff))

    def forward(self, x: Tensor, weights: Tensor) -> Tensor:
        """The sum of weights[..., e] * network_e(x); x [..., d_model], weights [..., experts]."""
        hidden = self._all(x, self.up)
        if self.gate is None:
            hidden = self.activation(hidden)
        else:
            hidden = self.activation(self._all(x, self.gate)) * hidden
        hidden = hidden * weights.unsqueeze(-1)
        return F.linear(hidden.flatten(-2), self.down.transpose(0, 1).flatten(1))

    def _all(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.linear(x, weight.flatten(0, 1)).unflatten(-1, weight.shape[:2])


class MoE(nn.Module):
    """A softmax over the `top_k` best experts. Raises ConfigError for biases or a wrong top_k."""

    least_top_k = 2  # a softmax over one score is 1 whatever the router says

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: Activation,
        bias: bool,
        *,
        experts: int,
        top_k: int,
        balance: float,
    ):
        super().__init__()
        if bias:
            raise ConfigError("bias = all: experts have no biases. Use bias=norm, bias=qkv or ffn=dense.")
        if not self.least_top_k <= top_k <= experts:
            raise ConfigError(
                f"ffn.top_k = {top_k}: must be from {self.least_top_k} to ffn.experts {experts}"
                + (
                    ", for a softmax over one score teaches the router nothing. Use ffn=switch for 1."
                    if top_k == 1
                    else "."
                )
            )
        self.top_k, self.balance = top_k, balance
        self.router = Linear(d_model, experts)
        self.experts = Experts(d_model, d_ff, activation, experts=experts, top_k=top_k)

    @staticmethod
    def networks_passed(*, top_k: int, shared: int = 0, **parameters: object) -> int:
        """The experts that are chosen for a token, and those that all tokens share where there are any."""
        return top_k + shared

    def forward(self, x: Tensor, *, diagnostics: bool) -> Flow:
        # The router computes in the dtype of its weights under autocast too: Switch, section 2.4.
        with torch.autocast(x.device.type, enabled=False):
            scores = self.router(x.to(self.router.weight.dtype))
            chosen = torch.zeros_like(scores, dtype=torch.bool)
            chosen = chosen.scatter(-1, scores.topk(self.top_k).indices, True)
            aux, load = balance_loss(scores, chosen, top_k=self.top_k)
            weights = self.weights(scores, chosen)
        stats = {"router/load_max": load.amax(), "router/load_min": load.amin()} if diagnostics else {}
        return self.experts(x, weights), self.balance * aux, stats

    def weights(self, scores: Tensor, chosen: Tensor) -> Tensor:
        """What each expert's output is multiplied by, 0 where it isn't chosen; all [..., experts]."""
        return scores.masked_fill(~chosen, -torch.inf).softmax(-1)


class Switch(MoE):
    """The best expert alone, times its share of the softmax over all."""

    least_top_k = 1

    def __init__(
        self, d_model: int, d_ff: int, activation: Activation, bias: bool, *, experts: int, balance: float
    ):
        super().__init__(d_model, d_ff, activation, bias, experts=experts, top_k=1, balance=balance)

    @staticmethod
    def networks_passed(**parameters: object) -> int:
        """One, for the best expert works alone."""
        return 1

    def weights(self, scores: Tensor, chosen: Tensor) -> Tensor:
        return scores.softmax(-1) * chosen


class DeepSeekMoE(MoE):
    """Shared experts, and the best of many narrow ones. Raises ConfigError without shared ones."""

    least_top_k = 1

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: Activation,
        bias: bool,
        *,
        experts: int,
        top_k: int,
        shared: int,
        balance: float,
    ):
        super().__init__(d_model, d_ff, activation, bias, experts=experts, top_k=top_k, balance=balance)
        if shared < 1:
            raise ConfigError(f"ffn.shared = {shared}: needs 1 or more. Use ffn=moe for none.")
        # `shared` networks whose outputs are summed are one network as many times as wide.
        self.shared = FFN(d_model, shared * d_ff, activation, bias)

    def forward(self, x: Tensor, *, diagnostics: bool) -> Flow:
        routed, aux, stats = super().forward(x, diagnostics=diagnostics)
        return self.shared.network(x) + routed, aux, stats

    def weights(self, scores: Tensor, chosen: Tensor) -> Tensor:
        return scores.softmax(-1) * chosen


def balance_loss(scores: Tensor, chosen: Tensor, *, top_k: int) -> tuple[Tensor, Tensor]:
    """experts / top_k * sum_i f_i P_i, and each expert's load experts / top_k * f_i, 1 where all are even.

    scores, chosen: [..., experts]. Gradients flow through P alone.
    """
    experts = scores.shape[-1]
    load = chosen.flatten(0, -2).to(scores.dtype).mean(0) * (experts / top_k)
    return (load * scores.softmax(-1).flatten(0, -2).mean(0)).sum(), load


VARIANTS: dict[str, Any] = {"dense": FFN, "moe": MoE, "switch": Switch, "deepseek_moe": DeepSeekMoE}

PUBLISHED = {
    "dense": Counterpart(every_but("mixtral")),
    "moe": counterpart("mixtral", experts=AT_ANY_VALUE, top_k=AT_ANY_VALUE, balance=AT_ANY_VALUE),
}
