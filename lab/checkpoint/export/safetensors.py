"""The safetensors format: 8 bytes for the length of a JSON header (little-endian), the header, the numbers of
all tensors.

Written by hand, since it is so little: https://github.com/huggingface/safetensors, section Format.
"""

import json
import struct
from pathlib import Path

from torch import Tensor, float32

ALIGNED_TO = 8


def write(tensors: dict[str, Tensor], path: Path) -> None:
    """Write fp32 tensors, in the order of their names."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    names, end = sorted(tensors), 0
    for name in names:
        tensor = tensors[name]
        assert tensor.dtype == float32
        start, end = end, end + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [start, end]}
    content = json.dumps(header, separators=(",", ":")).encode()
    content += b" " * (-len(content) % ALIGNED_TO)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(content)) + content)
        for name in names:
            file.write(tensors[name].detach().cpu().contiguous().numpy().astype("<f4").tobytes())
