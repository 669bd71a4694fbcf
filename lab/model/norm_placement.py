"""Where do the norms of a sub-layer f stand?

Contract: one placement per sub-layer, built as `variant(make_norm, num_layers)`. It owns its norms and acts
at four places, each the identity unless the variant says otherwise: x <- after(skip(x) +
branch(f(before(x)))), all of them [..., d_model].
- pre: x + f(N(x)). Xiong et al. 2020 (2002.04745), table 1.
- post: N(x + f(x)). Vaswani et al. 2017 (1706.03762), section 3.1. The stream leaves normalised: no final
  norm.
- double: x + N(f(N(x))), with two norms. Ding et al. 2021 (2105.13290), "Sandwich-LN"; Gemma 2 (2408.00118).
- output: x + N(f(x)). OLMo 2 (2501.00656), section 3.
- deepnorm: N(alpha x + f(x)) with alpha = (2 L)^(1/4), L the number of layers, and a start in which the
  matrices that carry values are (8 L)^(-1/4) times as large: W_v, W_out, W_up, W_down, while W_q, W_k and the
  gate, which only weigh them, are as ever. Wang et al. 2022 (2203.00555), figure 2, decoder only.
"""

from collections.abc import Callable

from torch import Tensor, nn

from lab.model.published import Counterpart, counterpart, every_but

MakeNorm = Callable[[], nn.Module]


class NormPlacement(nn.Module):
    """Where one sub-layer's norms stand. Each place changes nothing unless a variant overrides it."""

    normalizes_stream = False  # the stream leaves the sub-layer normalised
    normalizes_branch = False  # what is added to the stream is normalised

    @staticmethod
    def init_gains(num_layers: int) -> dict[str, float]:
        """{init role: how many times as large its matrices start}, 1 where it isn't named."""
        return {}

    def skip(self, x: Tensor) -> Tensor:
        """The residual stream as it passes the sub-layer by."""
        return x

    def before(self, x: Tensor) -> Tensor:
        """What the sub-layer reads of the residual stream."""
        return x

    def branch(self, y: Tensor) -> Tensor:
        """What is added to the residual stream for the sub-layer's output."""
        return y

    def after(self, x: Tensor) -> Tensor:
        """What the residual stream becomes after the addition."""
        return x


class PreNorm(NormPlacement):
    """The sub-layer reads a normalised stream and adds to the one that isn't."""

    def __init__(self, make_norm: MakeNorm, num_layers: int):
        super().__init__()
        self.norm = make_norm()

    def before(self, x: Tensor) -> Tensor:
        return self.norm(x)


class PostNorm(NormPlacement):
    """The stream is normalised after each addition."""

    normalizes_stream = True

    def __init__(self, make_norm: MakeNorm, num_layers: int):
        super().__init__()
        self.norm = make_norm()

    def after(self, x: Tensor) -> Tensor:
        return self.norm(x)


class DeepNorm(PostNorm):
    """The stream is scaled up before each addition and normalised after it."""

    def __init__(self, make_norm: MakeNorm, num_layers: int):
        super().__init__(make_norm, num_layers)
        self.scale = (2 * num_layers) ** 0.25

    @staticmethod
    def init_gains(num_layers: int) -> dict[str, float]:
        return dict.fromkeys(("value", "residual"), (8 * num_layers) ** -0.25)

    def skip(self, x: Tensor) -> Tensor:
        return x * self.scale


class DoubleNorm(NormPlacement):
    """What the sub-layer reads and what it adds are normalised, each by a norm of its own."""

    normalizes_branch = True

    def __init__(self, make_norm: MakeNorm, num_layers: int):
        super().__init__()
        self.input_norm = make_norm()
        self.output_norm = make_norm()

    def before(self, x: Tensor) -> Tensor:
        return self.input_norm(x)

    def branch(self, y: Tensor) -> Tensor:
        return self.output_norm(y)


class OutputNorm(NormPlacement):
    """What the sub-layer adds is normalised, and not what it reads."""

    normalizes_branch = True

    def __init__(self, make_norm: MakeNorm, num_layers: int):
        super().__init__()
        self.norm = make_norm()

    def branch(self, y: Tensor) -> Tensor:
        return self.norm(y)


VARIANTS: dict[str, type[NormPlacement]] = {
    "pre": PreNorm,
    "post": PostNorm,
    "double": DoubleNorm,
    "output": OutputNorm,
    "deepnorm": DeepNorm,
}

PUBLISHED = {
    "pre": Counterpart(every_but("olmo2", "gemma2")),
    "double": counterpart("gemma2"),
    "output": counterpart("olmo2"),
}
