"""Which random numbers does each part of the model draw?

Every draw comes from a private generator that is keyed by what the numbers are for: ("init", seed, tensor
name) or ("dropout", seed, step, site). Torch's global generator is never used, so no part can shift
another's randomness.
"""

import hashlib

import torch


def keyed_generator(*key: str | int, device: torch.device) -> torch.Generator:
    """A generator on `device` whose stream is a function of `key` alone (and of the kind of device)."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "little"))
