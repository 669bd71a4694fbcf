"""How is a vector normalised?

Contract: a module built as `variant(size, bias, **YAML)` that maps [..., size] to [..., size], each vector on
its own; `bias` says whether a variant that has an additive bias keeps it.
- layernorm: (x - mean) / sqrt(variance + eps) * gain + bias. Ba et al. 2016 (1607.06450), eq. 4.
- rmsnorm: x / sqrt(mean(x^2) + eps) * gain. Zhang and Sennrich 2019 (1910.07467), eq. 4.
- nonparametric: layernorm without gain and bias. OLMo (2402.00838), section 2.1.
- none: x, without parameters.
"""

from collections.abc import Callable

from torch import Tensor, nn

from lab.model.published import ANY, AT_ANY_VALUE, EVERY, GPT_LIKE, Counterpart, counterpart, every_but

QK_NORM_EPS = 1e-6  # of queries and keys, as in Qwen3, Gemma 3 and OLMo 2


class LayerNorm(nn.LayerNorm):
    """(x - mean) / sqrt(variance + eps) * gain, plus a bias unless it is left out."""

    roles = {"weight": "norm_gain", "bias": "norm_bias"}

    def __init__(self, size: int, bias: bool, *, eps: float):
        super().__init__(size, eps=eps, bias=bias)


class RMSNorm(nn.RMSNorm):
    """x / sqrt(mean(x^2) + eps) * gain. There is no bias, whatever `bias` says."""

    roles = {"weight": "norm_gain"}

    def __init__(self, size: int, bias: bool, *, eps: float):
        super().__init__(size, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        # Under bf16 autocast torch's fused kernel needs input and gain of one dtype; fp32 is the safer one.
        return super().forward(x.to(self.weight.dtype))


class NonParametric(nn.LayerNorm):
    """(x - mean) / sqrt(variance + eps), with nothing trained."""

    def __init__(self, size: int, bias: bool, *, eps: float):
        super().__init__(size, eps=eps, elementwise_affine=False)


class NoNorm(nn.Identity):
    """Leaves x as it is."""

    def __init__(self, size: int, bias: bool):
        super().__init__()


VARIANTS: dict[str, Callable[..., nn.Module]] = {
    "layernorm": LayerNorm,
    "rmsnorm": RMSNorm,
    "nonparametric": NonParametric,
    "none": NoNorm,
}

# Qwen3 and OLMo 2 have one eps for all norms, those of queries and keys too; OLMo's stands in its code.
PUBLISHED = {
    "layernorm": counterpart("cohere2", "gpt2", "gpt_neox", "bloom", eps=AT_ANY_VALUE),
    "rmsnorm": Counterpart(
        every_but("olmo", "cohere2", *GPT_LIKE),
        {"eps": {QK_NORM_EPS: EVERY, ANY: every_but("qwen3", "olmo2")}},
    ),
    "nonparametric": counterpart("olmo", eps={1e-5: EVERY}),
}
