"""Where do the norms of a sub-layer f stand?

Contract: one placement per sub-layer, built as `variant(make_norm)`. It owns its norms and acts at three places, each
the identity unless the variant says otherwise: x <- after(x + branch(f(before(x)))), all of them [..., d_model].
- pre: x + f(N(x)). Xiong et al. 2020 (2002.04745), table 1.
- post: N(x + f(x)). Vaswani et al. 2017 (1706.03762), section 3.1. The stream leaves normalised: no final norm.
- double: x + N(f(N(x))), with two norms. Ding et al. 2021 (2105.13290), "Sandwich-LN"; Gemma 2 (2408.00118).
- output: x + N(f(x)). OLMo 2 (2501.00656), section 3.
"""

from collections.abc import Callable

from torch import Tensor, nn

MakeNorm = Callable[[], nn.Module]


class NormPlacement(nn.Module):
    ends_normalized = False

    def before(self, x: Tensor) -> Tensor:
        """What the sub-layer reads of the residual stream."""
        return x

    def branch(self, y: Tensor) -> Tensor:
        """What is added to the residual stream for the sub-layer's output."""
        return y

    def after(self, x: Tensor) -> Tensor:
        """What the residual stream becomes after the addition."""
        return x


class Pre(NormPlacement):
    def __init__(self, make_norm: MakeNorm):
        super().__init__()
        self.norm = make_norm()

    def before(self, x: Tensor) -> Tensor:
        return self.norm(x)


class Post(NormPlacement):
    ends_normalized = True

    def __init__(self, make_norm: MakeNorm):
        super().__init__()
        self.norm = make_norm()

    def after(self, x: Tensor) -> Tensor:
        return self.norm(x)


class Double(NormPlacement):
    def __init__(self, make_norm: MakeNorm):
        super().__init__()
        self.input_norm = make_norm()
        self.output_norm = make_norm()

    def before(self, x: Tensor) -> Tensor:
        return self.input_norm(x)

    def branch(self, y: Tensor) -> Tensor:
        return self.output_norm(y)


class Output(NormPlacement):
    def __init__(self, make_norm: MakeNorm):
        super().__init__()
        self.norm = make_norm()

    def branch(self, y: Tensor) -> Tensor:
        return self.norm(y)


VARIANTS: dict[str, type[NormPlacement]] = {"pre": Pre, "post": Post, "double": Double, "output": Output}
