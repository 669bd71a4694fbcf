"""The journal of a mirror: a file as earlier versions wrote it, and one that is damaged."""

import json
from pathlib import Path

import pytest

from lab.config.strict import ConfigError
from lab.track.journal import Journal, Mirrored

WRITTEN = {
    "0123456789ab": {
        "offline": {"segment": None, "state": "finished", "step": 20},
        "online": {"segment": "wandb/offline-run-1", "state": None, "step": 7},
    }
}


def test_an_earlier_file_is_read_and_goes_on_in_its_form(tmp_path: Path) -> None:
    path = tmp_path / "mirrored.json"
    path.write_text(json.dumps(WRITTEN))
    journal = Journal(path)
    assert journal.of("0123456789ab", "offline") == Mirrored(20, "finished")
    assert journal.of("0123456789ab", "online") == Mirrored(7, None, "wandb/offline-run-1")
    assert journal.of("ffffffffffff", "online") == Mirrored(0)
    journal.enter("0123456789ab", "online", Mirrored(9, "diverged"))
    now = {"segment": None, "state": "diverged", "step": 9}
    assert json.loads(path.read_text()) == {"0123456789ab": {**WRITTEN["0123456789ab"], "online": now}}


@pytest.mark.parametrize("content", ["{", '{"0123456789ab": {"online": {"step": "7", "state": null}}}'])
def test_a_damaged_file_is_named_with_the_way_on(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mirrored.json"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        Journal(path)
    for problem in caught.value.problems:
        assert str(path) in problem and f"Remove {tmp_path} to mirror all runs again." in problem
