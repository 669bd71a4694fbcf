"""Token shards written by hand, so that every row, byte and nat is known."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from lab.data.shard_meta import FORMAT_VERSION

VOCABULARY = [b"", *(b"abcdefghi"[:n] for n in range(1, 10))]  # id n stands for n bytes


def sealed(meta: dict[str, object]) -> dict[str, object]:
    return meta | {"checksum": sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest()}


def write_shards(
    folder: Path,
    train: list[list[int]],
    validation: list[list[int]],
    *,
    vocabulary: Sequence[bytes] = VOCABULARY,
    skills: Sequence[str] = (),
    floor: Sequence[float] = (),
    skill: Sequence[int] = (),
    choices: Sequence[tuple[int, int, int, int, int]] = (),
    choice_tokens: Sequence[int] = (),
    languages: Sequence[str] = (),
    language: Sequence[int] | None = None,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    sizes = np.array([len(token) for token in vocabulary], dtype=np.int32)
    counts = {}
    for split, documents in (("train", train), ("validation", validation)):
        starts = np.cumsum([0, *(1 + len(document) for document in documents)])
        stream = [token for document in documents for token in (0, *document)] + [0]
        np.array(stream, dtype="<u2").tofile(folder / f"{split}.bin")
        np.save(folder / f"{split}_documents.npy", starts[:-1].astype(np.int64))
        counts[split] = {
            "documents": len(documents),
            "tokens": len(stream),
            "bytes": int(sizes[stream].sum()),
        }
    (folder / "vocabulary.bin").write_bytes(b"".join(vocabulary))
    np.save(folder / "token_bytes.npy", sizes)
    of_document = [-1] * len(validation) if language is None else language
    np.save(folder / "validation_language.npy", np.array(of_document, dtype=np.int16))
    if skills:
        np.save(folder / "validation_floor.npy", np.array(floor))
        np.save(folder / "validation_skill.npy", np.array(skill, dtype=np.uint8))
        np.save(folder / "choices.npy", np.array(choices, dtype=np.int64).reshape(-1, 5))
        np.save(folder / "choice_tokens.npy", np.array(choice_tokens, dtype="<u2"))
    files = {
        file.name: {"bytes": file.stat().st_size, "sha256": sha256(file.read_bytes()).hexdigest()}
        for file in folder.iterdir()
    }
    meta = {
        "format_version": FORMAT_VERSION,
        "dtype": "<u2",
        "vocab_size": len(vocabulary),
        "corpus": "text",
        "fingerprint": "f",
        "provenance": "written by hand",
        "tokenizer_hash": "t",
        "unigram_bpb": 1.0,
        "skills": list(skills),
        "languages": list(languages),
        "near_duplicates": {"validation_documents": 0, "training_documents_dropped": 0, "first": None},
        "files": files,
        **counts,
    }
    (folder / "meta.json").write_text(json.dumps(sealed(meta)))
    return folder
