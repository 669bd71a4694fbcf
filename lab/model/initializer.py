"""Which values does every parameter start from?

Contract: a module that owns parameters declares `roles` = {parameter: role} in its class; the table at the
end turns a role into a distribution and refuses what it does not know. No rule looks at a tensor's name, but
its noise is a function of (seed, name), so a variant that adds or removes a tensor leaves all others as they
were.
- linear, value, residual, head: normal or uniform, of standard deviation `std` or of variance 2 / (d_in +
  d_out) (Glorot and Bengio 2010, eq. 12); `depth_scaled` divides residual, what is added to the stream, by
  sqrt(2 L) (Radford et al. 2019, 2.3).
- embedding: normal of standard deviation `embedding_std`.
- position: the same, for both are summed and neither should drown the other; published models draw both alike
  too.
- norm_gain: 1. norm_bias, bias, position_bias (what is added to attention scores by distance): 0. Normals are
  truncated at `cutoff` standard deviations; "standard deviation" is that before the truncation. A model may
  declare `init_gains` = {role: factor}: how many times as large its matrices start as the table says.
"""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from lab.config.schema import Init
from lab.model.randomness import keyed_generator


def declared_roles(model: nn.Module) -> dict[str, str]:
    """{parameter name: role} of the whole model, a shared tensor once.

    Raises ValueError where a module declares no role for a parameter of its own.
    """
    roles: dict[str, str] = {}
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for module in model.modules():
        declared = getattr(module, "roles", {})
        for own_name, parameter in module.named_parameters(recurse=False):
            name = names[id(parameter)]
            if own_name not in declared:
                raise ValueError(f"{name}: {type(module).__name__} declares no role for {own_name}.")
            roles.setdefault(name, declared[own_name])
    return roles


@torch.no_grad()
def initialize(model: nn.Module, *, init: Init, seed: int) -> None:
    """Overwrites every parameter in place. Raises ValueError on a missing or unknown role."""
    roles, gains = declared_roles(model), dict(getattr(model, "init_gains", {}))
    if init.depth_scaled:
        num_layers = len(cast(nn.ModuleList, model.blocks))
        gains["residual"] = gains.get("residual", 1.0) * (2 * num_layers) ** -0.5
    for name, parameter in model.named_parameters():
        if roles[name] not in DISTRIBUTIONS:
            raise ValueError(f"{name}: role {roles[name]!r} is unknown. Known: {', '.join(DISTRIBUTIONS)}.")
        # Drawn in fp32 on the CPU, so that a seed means the same weights on every device and in every dtype.
        value = torch.empty(parameter.shape, dtype=torch.float32, device="cpu")
        DISTRIBUTIONS[roles[name]](value, init, keyed_generator("init", seed, name, device=value.device))
        parameter.copy_(value * gains.get(roles[name], 1.0))


def _linear(value: Tensor, init: Init, generator: torch.Generator) -> None:
    d_out, d_in = value.shape[-2:]
    std = init.std if init.std is not None else (2.0 / (d_in + d_out)) ** 0.5
    if init.uniform:
        value.uniform_(-(3.0**0.5) * std, 3.0**0.5 * std, generator=generator)
    else:
        _normal(value, std, init.cutoff, generator)


def _embedding(value: Tensor, init: Init, generator: torch.Generator) -> None:
    _normal(value, init.embedding_std, init.cutoff, generator)


def _ones(value: Tensor, init: Init, generator: torch.Generator) -> None:
    value.fill_(1.0)


def _zeros(value: Tensor, init: Init, generator: torch.Generator) -> None:
    value.zero_()


def _normal(value: Tensor, std: float, cutoff: float | None, generator: torch.Generator) -> None:
    if cutoff is None:
        value.normal_(std=std, generator=generator)
    else:
        nn.init.trunc_normal_(value, std=std, a=-cutoff * std, b=cutoff * std, generator=generator)


DISTRIBUTIONS: dict[str, Callable[[Tensor, Init, torch.Generator], None]] = {
    "linear": _linear,
    "value": _linear,
    "residual": _linear,
    "head": _linear,
    "embedding": _embedding,
    "position": _embedding,
    "norm_gain": _ones,
    "norm_bias": _zeros,
    "bias": _zeros,
    "position_bias": _zeros,
}
