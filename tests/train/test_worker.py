"""What a worker sets up for its process before the run begins."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

# 8 tensors of 4 MiB, all freed: four times what glibc keeps by default after it has seen one of that size.
PROGRAM = """
import resource
import torch
from lab.train.worker import _keep_freed_memory

_keep_freed_memory()
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tensors = [torch.ones(2**20) for _ in range(8)]
    del tensors
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is of glibc")
def test_freed_tensors_leave_their_pages_to_the_next_ones():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    first, *_, last = map(int, ran.stdout.split())
    assert first >= 500  # 32 MiB in pages of 64 KiB at most
    assert last < first / 50
