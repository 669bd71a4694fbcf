"""How do tokens read from earlier tokens?

Contract: [B, T, d_model] -> [B, T, d_model], causal attention of `num_heads` heads (Vaswani et al. 2017,
section 3.2); num_heads * head_dim need not equal d_model. Options:
- num_kv_heads: query heads in groups of num_heads / num_kv_heads share one head of keys and values, in their
  order. All of them one: multi-query (Shazeer 2019, 1911.02150); some: grouped-query (Ainslie et al. 2023,
  2305.13245).
- qk_norm: each head's q and k pass an RMSNorm over head_dim, gains shared by the heads, before positions
  rotate them. Dehghani et al. 2023 (2302.05442) with LayerNorm; RMSNorm as in Qwen3 and Gemma 3.
  qk_norm_joint: one RMSNorm over all heads together instead, as in OLMo 2 (2501.00656), section 3.
- softcap c: scores become c tanh(score / c) before bias and mask. Gemma 2 (2408.00118), section 2.
"""

from functools import partial

from torch import Tensor, nn

from lab.config.schema import Shape
from lab.config.strict import ConfigError
from lab.model import kernel
from lab.model.bias import Biases
from lab.model.kernel import kernel_for, logit_max
from lab.model.linear import Linear, ResidualLinear, ValueLinear
from lab.model.norm import QK_NORM_EPS, RMSNorm
from lab.model.pattern import LayerRule
from lab.model.position import Position
from lab.model.published import ANY, EVERY, Table, every_but

NOWHERE = Position()


class SelfAttention(nn.Module):
    """Attention of one layer. Raises ConfigError where the heads of keys don't divide those of queries."""

    def __init__(
        self,
        shape: Shape,
        *,
        layer: int,
        rule: LayerRule,
        biases: Biases,
        qk_norm: bool,
        qk_norm_joint: bool,
        softcap: float | None,
    ):
        super().__init__()
        if shape.num_heads % shape.kv_heads:
            raise ConfigError(
                f"attention.num_kv_heads = {shape.kv_heads}: does not divide the {shape.num_heads} heads."
            )
        self.layer, self.rule, self.softcap, self.head_dim = layer, rule, softcap, shape.head_dim
        width, kv_width = shape.num_heads * shape.head_dim, shape.kv_heads * shape.head_dim
        # Three matrices: one fused matrix measured no faster on a CPU, and each keeps its own d_in and d_out.
        self.q = Linear(shape.d_model, width, bias=biases.qkv)
        self.k = Linear(shape.d_model, kv_width, bias=biases.qkv)
        self.v = ValueLinear(shape.d_model, kv_width, bias=biases.qkv)
        self.out = ResidualLinear(width, shape.d_model, bias=biases.other)
        sizes = (width, kv_width) if qk_norm_joint else (shape.head_dim, shape.head_dim)
        self.q_norm = RMSNorm(sizes[0], False, eps=QK_NORM_EPS) if qk_norm else None
        self.k_norm = RMSNorm(sizes[1], False, eps=QK_NORM_EPS) if qk_norm else None

    def forward(
        self, x: Tensor, position: Position, *, diagnostics: bool
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The output, and with `diagnostics` the statistic "attention/logit_max" (see `logit_max`)."""
        chosen = kernel_for(position, self.rule, softcap=self.softcap, device=x.device.type)
        if not self.rule.position:
            position = NOWHERE
        q, k, v = (linear(x).unflatten(-1, (-1, self.head_dim)) for linear in (self.q, self.k, self.v))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = normed(q, self.q_norm), normed(k, self.k_norm)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        q, k = position.rotate(q, k)

        bias, sees = position.bias(q, layer=self.layer), self.rule.sees
        if chosen == "sdpa":
            y = kernel.sdpa(q, k, v, bias=bias, sees=sees)
        elif chosen == "flex":
            y = kernel.flex(q, k, v, softcap=self.softcap, bias=bias, sees=sees)
        else:
            read = partial(position.read, layer=self.layer)
            y = kernel.masked(q, k, v, softcap=self.softcap, bias=bias, sees=sees, read=read)

        stats = {"attention/logit_max": logit_max(q.detach(), k.detach(), sees)} if diagnostics else {}
        return self.out(y.transpose(1, 2).flatten(2)), stats


def normed(x: Tensor, norm: RMSNorm) -> Tensor:
    """x [..., heads, head_dim], normalised.

    Each head stands on its own where the norm has the size of one, else all are normalised together.
    """
    if norm.normalized_shape[0] == x.shape[-1]:
        return norm(x)
    return norm(x.flatten(-2)).view_as(x)


PUBLISHED_KEYS: dict[str, Table] = {
    "stability.qk_norm": {False: every_but("qwen3", "olmo2"), True: frozenset({"qwen3", "olmo2"})},
    "stability.qk_norm_joint": {False: every_but("olmo2"), True: frozenset({"olmo2"})},
    "stability.attention_softcap": {None: EVERY, ANY: frozenset({"gemma2"})},
}
