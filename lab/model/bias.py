"""Which matrices and norms have an additive bias?

Contract: flags that the parts of a block are built with. The head, a router and norms without parameters
never have one.
- norm: norms alone, where the variant has one: LayerNorm as published (Ba et al. 2016, 1607.06450).
- none: nothing; a LayerNorm keeps its gain. PaLM (2204.02311), section 2; LLaMA (2302.13971).
- qkv: queries, keys and values alone. Qwen (2309.16609), section 2.3.
- all: every matrix of a block and norms. GPT-2 (Radford et al. 2019).
"""

from dataclasses import dataclass

from lab.model.published import GPT_LIKE, Counterpart, counterpart, every_but


@dataclass(frozen=True)
class Biases:
    """Which parts of a block have biases.

    qkv: the projections to queries, keys and values; other: attention's output and the feed-forward layer;
    norm: norms.
    """

    qkv: bool
    other: bool
    norm: bool


VARIANTS: dict[str, Biases] = {
    "norm": Biases(qkv=False, other=False, norm=True),
    "none": Biases(qkv=False, other=False, norm=False),
    "qkv": Biases(qkv=True, other=False, norm=False),
    "all": Biases(qkv=True, other=True, norm=True),
}


def simplest(name: str, *, norm_has_bias: bool) -> str:
    """The first variant that builds the same model.

    Where no norm has a bias, `none` is `norm`, and the two are one run.
    """
    same = [
        other
        for other, flags in VARIANTS.items()
        if (flags.qkv, flags.other) == (VARIANTS[name].qkv, VARIANTS[name].other)
        and (flags.norm == VARIANTS[name].norm or not norm_has_bias)
    ]
    return same[0]


PUBLISHED = {
    "norm": Counterpart(every_but("qwen2", "cohere2", *GPT_LIKE)),
    "none": Counterpart(every_but("qwen2", *GPT_LIKE)),
    "qkv": counterpart("qwen2"),
    "all": counterpart("llama", *GPT_LIKE),
}
