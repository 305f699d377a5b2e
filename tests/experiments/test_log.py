"""The log of a run: whatever it was cut off at, what was complete is read."""

import pytest

from backcast.experiments import Block, Score, log

BLOCKS = [
    Block("start", (Score("untrained", -1, -1, 0, "test", 10, {"accuracy": 0.1}),), {"seconds": 1}),
    Block("task 0", (), {}),
    Block(
        "task 1",
        tuple(
            Score("filtered", 1, 1, j, "validation", 7, {"accuracy": j / 3, "nll": 1e-300})
            for j in range(2)
        ),
        {"losses": [0.1, 0.2]},
    ),
]


@pytest.fixture
def path(tmp_path):
    for block in BLOCKS:
        log.append(tmp_path / "log", block)
    return tmp_path / "log"


def test_blocks_come_back(path):
    assert log.read(path) == BLOCKS


def test_a_log_cut_off_anywhere_holds_what_was_complete(path):
    content = path.read_bytes()
    ends = [content.index(b'"end": "%s"' % b.name.encode()) for b in BLOCKS]
    ends = [content.index(b"\n", end) + 1 for end in ends]
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        complete = sum(end <= length for end in ends)
        assert log.read(path) == BLOCKS[:complete]
        log.keep(path, complete)
        assert path.read_bytes() == content[: ([0, *ends])[complete]]


@pytest.mark.parametrize("damage", [b"\xff\xfe\n", b"{}\n", b"[1]\n", b'{"score": \n', b"\0" * 50])
def test_behind_damage_nothing_is_believed(path, damage):
    content = path.read_bytes()
    middle = content.index(b"\n") + 1
    path.write_bytes(content[:middle] + damage + content[middle:])
    assert log.read(path) == []
    log.keep(path, 0)
    assert path.read_bytes() == b""


def test_what_is_not_a_number_is_never_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        log.append(tmp_path / "log", Block("start", (), {"loss": float("nan")}))
    assert not (tmp_path / "log").exists() or log.read(tmp_path / "log") == []


def test_there_may_be_no_log_yet(tmp_path):
    assert log.read(tmp_path / "log") == []
    log.keep(tmp_path / "log", 0)
