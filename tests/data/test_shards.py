"""The shard reader on folders written here by hand, so that every row, byte and nat is known."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lab.data.shards import ShardError, Shards, token_dtype
from tests.hand_shards import sealed, write_shards


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    # Stream: 0 1 2 | 0 3 | 0 4 5 6 7 8 9 4 | 0 2, and the closing 0 at position 15.
    train = [[1, 2], [3], [4, 5, 6, 7, 8, 9, 4], [2]]
    return Shards.open(write_shards(tmp_path / "s", train, [[1, 2, 3], [4, 5, 6, 7, 8, 9], [5]]))


def test_rows_start_at_documents_and_continue_long_ones(shards: Shards) -> None:
    # 0-3 holds the start at 3; 3-6 the one at 5; the document at 5 fills 5-8 and 8-11 and ends in 11-14,
    # where
    # another starts at 13, whose row goes on into the first document.
    assert shards.rows(3).tolist() == [0, 3, 5, 8, 11, 13]
    order = np.concatenate([shards.batch(step, seed=5, rows=2, context_length=3) for step in range(3)])
    rows = {tuple(row) for row in order.tolist()}
    assert rows == {(0, 1, 2, 0), (0, 3, 0, 4), (0, 4, 5, 6), (6, 7, 8, 9), (9, 4, 0, 2), (0, 2, 0, 1)}


@pytest.mark.parametrize("context_length", [1, 2, 3, 4, 7, 11, 14, 15, 40])
def test_every_token_is_predicted_in_each_epoch(shards: Shards, context_length: int) -> None:
    documents = {0, 3, 5, 13}
    starts = shards.rows(context_length).tolist()
    predicted = {(start + i) % 15 for start in starts for i in range(1, context_length + 1)}
    assert predicted == set(range(15))
    for previous, start in zip(starts, starts[1:], strict=False):
        assert start in documents or start == previous + context_length


def test_an_epoch_reads_each_row_once_in_an_order_of_its_own(shards: Shards) -> None:
    rows = np.concatenate([shards.batch(step, seed=1, rows=4, context_length=3) for step in range(30)])
    epochs = [list(map(tuple, epoch)) for epoch in rows.reshape(20, 6, 4).tolist()]
    assert all(sorted(epoch) == sorted(epochs[0]) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 10


def test_a_batch_is_a_pure_function_of_step_and_seed(shards: Shards) -> None:
    def read(step: int, seed: int, reader: Shards = shards) -> list[list[int]]:
        return reader.batch(step, seed=seed, rows=3, context_length=3).tolist()

    later = [read(step, 1) for step in (9, 0, 4)]
    fresh = Shards.open(shards.path)
    assert [read(step, 1, fresh) for step in (9, 0, 4)] == later
    assert read(0, 1) != read(0, 2)
    assert shards.batch(0, seed=1, rows=3, context_length=3).dtype == np.int64
    # Cutting the batches otherwise leaves the order of the rows alone.
    assert read(0, 1) + read(1, 1) == shards.batch(0, seed=1, rows=6, context_length=3).tolist()


def test_the_dtype_fits_the_largest_id() -> None:
    assert np.iinfo(token_dtype(65536)).max >= 65535
    assert token_dtype(65536).itemsize == 2
    assert token_dtype(65537).itemsize == 4


def test_a_cut_file_is_noticed_at_open(shards: Shards) -> None:
    file = shards.path / "train.bin"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ShardError, match=r"train.bin: 31 bytes, not 32"):
        Shards.open(shards.path)


def test_a_flipped_bit_is_noticed_by_verify(shards: Shards) -> None:
    shards.verify()
    file = shards.path / "validation.bin"
    content = bytearray(file.read_bytes())
    content[5] ^= 1
    file.write_bytes(content)
    with pytest.raises(ShardError, match="validation.bin: the checksum"):
        Shards.open(shards.path).verify()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"dtype": "<u4"}, "<u4 is not the type for 10 tokens"),
        ({"format_version": 99}, "not of shard format"),
        ({"format_version": 99, "new_key": 1}, "not of shard format"),
        ({"skills": "none"}, "meta.json: skills = none: needs a list"),
        ({"new_key": 1}, "meta.json: new_key: unknown key"),
    ],
)
def test_another_format_is_refused(shards: Shards, change: dict[str, object], what: str) -> None:
    meta = json.loads((shards.path / "meta.json").read_text())
    meta.pop("checksum")
    (shards.path / "meta.json").write_text(json.dumps(sealed(meta | change)))
    with pytest.raises(ShardError, match=what):
        Shards.open(shards.path)


@pytest.mark.parametrize("content", ["[]", "{}", '"text"', "3", "{"])
def test_meta_that_is_no_sealed_record_is_refused(shards: Shards, content: str) -> None:
    (shards.path / "meta.json").write_text(content)
    with pytest.raises(ShardError, match="no readable meta.json"):
        Shards.open(shards.path)


def test_a_changed_number_in_meta_is_noticed(shards: Shards) -> None:
    file = shards.path / "meta.json"
    file.write_text(file.read_text().replace('"unigram_bpb": 1.0', '"unigram_bpb": 1.1'))
    with pytest.raises(ShardError, match="damaged"):
        Shards.open(shards.path)


def test_a_folder_without_meta_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ShardError, match=r"meta\.json"):
        Shards.open(tmp_path)


def test_reading_needs_numpy_only() -> None:
    heavy = "('torch', 'hydra', 'yaml', 'tokenizers', 'datasets', 'pyarrow')"
    code = f"import sys, lab.data.shards; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
