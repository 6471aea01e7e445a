"""`kafkapy prune`, and whose turn it is in a store."""

from __future__ import annotations

import errno
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kafkapy
from kafkapy.tools.backup.manifest import content_name, names_of, read_manifest
from kafkapy.tools.backup.store import open_store
from kafkapy.tools.backup.turn import turn
from tests.tools.backup.odd_store import before_requests
from tests.tools.backup.test_backup import SECONDS, done, run, values


def _backed_up(tmp_path: Path, store: object, count: int = 4) -> list[str]:
    """Back up a broker that gets a record and a topic before each; return the moments."""
    for number in range(count):
        with kafkapy.Broker(data_dir=tmp_path / "data") as broker:
            broker.create_topics({f"topic-{number}": 1})
            broker.produce("orders", value=f"order {number}")
        done("backup", "--data", tmp_path / "data", store)
    return names_of(open_store(str(store)))


@pytest.fixture(params=["file://", "memory:/"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}{tmp_path}/store"


def test_old_backups_are_removed_with_what_only_they_had(tmp_path: Path, place: str) -> None:
    moments = _backed_up(tmp_path, place)
    store = open_store(place)
    before = dict(store.contents())

    told = done("prune", place, "--keep", 2)

    assert told.splitlines()[:-1] == [f"removed the backup of {each}" for each in moments[:2]]
    assert names_of(store) == moments[2:]
    needed = {
        content_name(saved.sha256)
        for name in moments[2:]
        for saved in read_manifest(store, name).files.values()
    }
    assert dict(store.contents()) == {name: size for name, size in before.items() if name in needed}
    assert needed < before.keys()
    for number, each in enumerate(moments[2:], 2):
        done("restore", place, tmp_path / f"again-{number}", "--at", each)
        assert values(tmp_path / f"again-{number}") == [f"order {n}".encode() for n in range(number + 1)]


def test_a_dry_run_says_what_would_go_and_removes_nothing(tmp_path: Path, place: str) -> None:
    moments = _backed_up(tmp_path, place)
    store = open_store(place)
    before = dict(store.contents())
    tried = done("prune", place, "--keep", 1, "--dry-run")
    assert tried.splitlines()[:-1] == [f"would remove the backup of {each}" for each in moments[:3]]
    assert (names_of(store), dict(store.contents())) == (moments, before)
    did = done("prune", place, "--keep", 1)
    assert re.findall(r"\d+ files of [\d.]+ MB", did) == re.findall(r"\d+ files of [\d.]+ MB", tried)


def test_as_many_as_there_are_stay_whole(tmp_path: Path, place: str) -> None:
    moments = _backed_up(tmp_path, place, 2)
    before = dict(open_store(place).contents())
    assert done("prune", place, "--keep", 9).startswith("0 files")
    assert (names_of(open_store(place)), dict(open_store(place).contents())) == (moments, before)


@pytest.mark.parametrize("removals", range(1, 15, 2))
def test_backups_that_stay_are_whole_when_a_prune_is_interrupted(tmp_path: Path, removals: int) -> None:
    """The n-th removal kills it; the next run removes what is left."""
    place = f"odd:/{tmp_path}/store"
    moments = _backed_up(tmp_path, place)
    removed: list[str] = []

    def dying(request: str, path: str) -> None:
        if request == "rm_file":
            removed.append(path)
            if len(removed) == removals:
                raise KeyboardInterrupt

    with before_requests(dying):
        run("prune", place, "--keep", 2)
    assert len(removed) >= removals
    assert names_of(open_store(place))[-2:] == moments[2:]
    for number, each in enumerate(moments[2:], 2):
        done("restore", place, tmp_path / f"again-{number}", "--at", each)
        assert values(tmp_path / f"again-{number}") == [f"order {n}".encode() for n in range(number + 1)]

    done("prune", place, "--keep", 2)
    left = {
        content_name(saved.sha256)
        for name in moments[2:]
        for saved in read_manifest(open_store(place), name).files.values()
    }
    assert {name for name, _ in open_store(place).contents()} == left


def test_nothing_is_removed_while_one_that_stays_is_damaged(tmp_path: Path) -> None:
    place = tmp_path / "store"
    moments = _backed_up(tmp_path, place, 3)
    before = dict(open_store(str(place)).contents())
    (place / "backups" / f"{moments[-1]}.json").write_text("{")
    refused = run("prune", place, "--keep", 1)
    assert (refused.exit_code, refused.stderr.count("is damaged: ")) == (1, 1)
    assert (names_of(open_store(str(place))), dict(open_store(str(place)).contents())) == (moments, before)


def test_what_an_interrupted_backup_has_left_goes(tmp_path: Path) -> None:
    place = tmp_path / "store"
    _backed_up(tmp_path, place, 1)
    left = place / "files" / "aa" / f"{64 * 'a'}.tmp-0123"
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"half")
    assert done("prune", place, "--keep", 1).startswith("1 files of 0.0 MB have gone")
    assert not left.exists()


def test_files_of_others_stay(tmp_path: Path, place: str) -> None:
    moments = _backed_up(tmp_path, place, 2)
    store = open_store(place)
    others = ("files/photos/apple.jpg", "files/ab/notes.txt", "backups/a-note.json", "backups/2026.json")
    for other in others:
        store.write(other, b"an apple")
    done("prune", place, "--keep", 1)
    assert names_of(store) == moments[1:]
    assert [store.read(other) for other in others] == [b"an apple"] * 4
    done("backup", "--data", tmp_path / "data", place)
    done("restore", place, tmp_path / "again")
    assert values(tmp_path / "again") == [b"order 0", b"order 1"]


def test_half_written_files_of_killed_commands_go(tmp_path: Path) -> None:
    place = tmp_path / "store"
    (moment,) = _backed_up(tmp_path, place, 1)
    with turn(open_store(str(place)), "kafkapy backup"):
        (own,) = (place / "turns").iterdir()
        told = json.loads(own.read_bytes())
    (place / "turns" / "left.json").write_text(json.dumps({**told, "pid": 2**22 + 1}))
    (place / "turns" / "left.json.tmp-01ef").write_text("{")
    (place / "backups" / f"{moment}.json.tmp-01ef").write_text("{")
    done("prune", place, "--keep", 1)
    assert list((place / "turns").iterdir()) == []
    assert [each.name for each in (place / "backups").iterdir()] == [f"{moment}.json"]


@pytest.mark.parametrize(
    "wrong",
    [{"at_ms": "now"}, {"at_ms": 10**30}, {"at_ms": 1}, {"files": []}, {"files": {"a": {"size": 1}}}],
)
def test_a_backup_that_says_what_it_cannot_say_is_damaged(tmp_path: Path, wrong: dict[str, object]) -> None:
    place = tmp_path / "store"
    (moment,) = _backed_up(tmp_path, place, 1)
    path = place / "backups" / f"{moment}.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **wrong}))
    for command in (("prune", place, "--keep", 1), ("restore", place, tmp_path / "again")):
        refused = run(*command)
        assert refused.stderr.startswith(f"kafkapy: backups/{moment}.json is damaged: "), refused
        assert refused.exit_code == 1


def test_nothing_is_removed_because_a_hash_in_a_backup_is_damaged(tmp_path: Path) -> None:
    place = tmp_path / "store"
    (moment,) = _backed_up(tmp_path, place, 1)
    before = dict(open_store(str(place)).contents())
    path = place / "backups" / f"{moment}.json"
    told = json.loads(path.read_bytes())
    next(iter(told["files"].values()))["sha256"] = "../../secret"
    path.write_text(json.dumps(told))
    refused = run("prune", place, "--keep", 1)
    assert refused.stderr.startswith(f"kafkapy: backups/{moment}.json is damaged: ")
    assert dict(open_store(str(place)).contents()) == before


def test_a_place_without_backups_is_not_pruned(tmp_path: Path) -> None:
    refused = run("prune", tmp_path, "--keep", 1)
    assert refused.stderr == f"kafkapy: {tmp_path} has no backups: name what kafkapy backup wrote to\n"
    assert run("prune", tmp_path, "--keep", 0).exit_code == 2


@pytest.mark.parametrize("command", ["backup", "prune"])
def test_one_command_at_a_time_writes_to_a_place(tmp_path: Path, place: str, command: str) -> None:
    moments = _backed_up(tmp_path, place, 2)
    arguments = ["--keep", 1] if command == "prune" else ["--data", tmp_path / "data"]
    with turn(open_store(place), "kafkapy backup"):
        refused = run(command, place, *arguments)
        assert re.fullmatch(
            r"kafkapy: kafkapy backup on \S+, process \d+, is at work there: run this again when it has"
            r" ended, and if its machine is gone, remove turns/[0-9a-f]{32}\.json",
            refused.stderr.strip(),
        )
        assert names_of(open_store(place)) == moments
    done(command, place, *arguments)
    assert open_store(place).names("turns") == []


def test_of_many_backups_at_once_each_is_whole_or_refused(tmp_path: Path) -> None:
    place = tmp_path / "store"
    _backed_up(tmp_path, place, 1)
    command = [sys.executable, "-m", "kafkapy", "backup", "--data", str(tmp_path / "data"), str(place)]
    others = []
    for number in range(4):
        shutil.copytree(tmp_path / "data", tmp_path / f"data-{number}")
        of_copy = [*command[:-2], str(tmp_path / f"data-{number}"), command[-1]]
        others.append(subprocess.Popen(of_copy, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    ended = [(*each.communicate(timeout=SECONDS), each.returncode) for each in others]
    made = [out for out, _, code in ended if code == 0]
    assert all(code == 0 or "is at work there" in error for _, error, code in ended), ended
    names = names_of(open_store(str(place)))
    assert len(names) == 1 + len(made)
    for number, each in enumerate(names):
        done("restore", place, tmp_path / f"again-{number}", "--at", each)
        assert values(tmp_path / f"again-{number}") == [b"order 0"]
    assert open_store(str(place)).names("turns") == []


@pytest.mark.parametrize(
    ("left", "is_over"),
    [
        ({"pid": 2**22 + 1}, True),  # Linux has no such process
        ({"machine": "another", "pid": 1, "at_ms": 0}, True),
        ({"machine": "another", "pid": 1}, False),
        ({"pid": 1}, False),
        ({"pid": 1, "at_ms": 0}, True),
    ],
)
def test_a_turn_ends_with_its_command_however_that_ends(
    tmp_path: Path, left: dict[str, object], is_over: bool
) -> None:
    place = tmp_path / "store"
    _backed_up(tmp_path, place, 1)
    with turn(open_store(str(place)), "kafkapy backup"):
        (own,) = (place / "turns").iterdir()
        told = json.loads(own.read_bytes())
    (place / "turns" / "left.json").write_text(json.dumps({**told, **left}))
    assert (run("prune", place, "--keep", 1).exit_code == 0) is is_over
    assert (open_store(str(place)).names("turns") == []) is is_over


def test_a_turn_that_nobody_can_read_is_named(tmp_path: Path) -> None:
    place = tmp_path / "store"
    _backed_up(tmp_path, place, 1)
    (place / "turns" / "left.json").write_text("{")
    refused = run("prune", place, "--keep", 1)
    assert refused.stderr == "kafkapy: turns/left.json is damaged: remove it if no command is at work\n"
    with turn(open_store(str(tmp_path / "other")), "kafkapy backup"):
        (own,) = (tmp_path / "other" / "turns").iterdir()
        told = json.loads(own.read_bytes())
    for nonsense in ("[" * 100_000, json.dumps({**told, "pid": 2**70}), json.dumps({**told, "at_ms": "now"})):
        (place / "turns" / "left.json").write_text(nonsense)
        refused = run("prune", place, "--keep", 1)
        assert refused.stderr == "kafkapy: turns/left.json is damaged: remove it if no command is at work\n"


def _take_turns(place: str) -> None:
    """As another command does when this one is suspended for long."""
    store = open_store(place)
    for name in store.names("turns"):
        store.remove(f"turns/{name}")


def test_a_backup_whose_turn_was_taken_is_not_named(tmp_path: Path) -> None:
    """It was suspended; meanwhile another command may have removed what it relies on."""
    place = f"odd:/{tmp_path}/store"
    moments = _backed_up(tmp_path, place, 1)
    with kafkapy.Broker(data_dir=tmp_path / "data") as broker:
        broker.produce("orders", value="one more")

    def suspended(request: str, path: str) -> None:
        if request == "put_file":
            _take_turns(place)

    with before_requests(suspended):
        refused = run("backup", "--data", tmp_path / "data", place)
    assert "another command has taken its turn: run it again" in refused.stderr
    assert names_of(open_store(place)) == moments


def test_a_prune_whose_turn_was_taken_removes_nothing_more(tmp_path: Path) -> None:
    """It was suspended; meanwhile another backup may need what the others did not."""
    place = f"odd:/{tmp_path}/store"
    _backed_up(tmp_path, place, 1)
    store = open_store(place)
    needed_later = f"files/ab/ab{62 * '0'}"
    store.write(needed_later, b"an apple")

    def suspended(request: str, path: str) -> None:
        if request == "find":
            _take_turns(place)

    with before_requests(suspended):
        refused = run("prune", place, "--keep", 1)
    assert "another command has taken its turn: run it again" in refused.stderr
    assert store.read(needed_later) == b"an apple"


def test_a_full_disk_is_pruned(tmp_path: Path) -> None:
    """Nothing can be written to it until something has gone."""
    place = f"odd:/{tmp_path}/store"
    moments = _backed_up(tmp_path, place, 3)
    store = open_store(place)

    def on_full_disk(request: str, path: str) -> None:
        if request == "pipe_file" and names_of(store) == moments:
            raise OSError(errno.ENOSPC, "No space left on device")

    with before_requests(on_full_disk):
        for arguments in (("--keep", 3), ("--keep", 1, "--dry-run")):
            assert "No space left on device" in run("prune", place, *arguments).stderr
            assert names_of(store) == moments
        told = done("prune", place, "--keep", 1)
    assert told.splitlines()[:-1] == [f"removed the backup of {each}" for each in moments[:2]]
    assert names_of(store) == moments[2:]
    done("restore", place, tmp_path / "again")
    assert values(tmp_path / "again") == [b"order 0", b"order 1", b"order 2"]
