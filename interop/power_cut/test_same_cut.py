"""kafkapy and Apache Kafka's own recovery truncate the same log at the same record.

Both get the same damage. Each finds in what the other left the same offsets, epochs and producers.

Leader epochs are compared where kafkapy recovered: of one log with garbage after its last batch Apache Kafka
kept only the newest. Above the recovery point only. Below it kafkapy truncates nothing (docs/storage.md).
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from interop.dump_log.judge import read_log
from interop.dump_log.test_log_files import appends, new_logs, write_here
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from kafkapy.protocol.records import iter_headers
from kafkapy.storage.log.partition_log import PartitionLog
from tests.crash.results import note
from tests.storage.log_harness import TP, Logs, headers_in, read_bytes

pytestmark = pytest.mark.jvm

DIRECTORIES = int(os.environ.get("KAFKAPY_SWAPPED_DIRECTORIES", "3"))
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
CRC_COVERED = 21


@pytest.fixture(scope="module", autouse=True)
def _jars() -> None:
    with skipped_without_jars():
        kafka_jars()


def damage(directory: Path, chance: random.Random) -> str:
    """What a power cut may have done to a log.

    It damages the unsynced end of a log, or any segment of one that was never synced.
    """
    path = chance.choice([max(directory.glob("*.log")), *directory.glob("*.log")])
    content = path.read_bytes()
    way = chance.choice(["cut", "zeros after", "garbage after", "bit", "zeros within"])
    if way == "cut":
        content = content[: chance.randrange(1, len(content))]
    elif way == "zeros after":
        content += bytes(chance.choice((7, 512, 4096)))
    elif way == "garbage after":
        content += chance.randbytes(chance.randrange(1, 3000))
    else:
        position, header = chance.choice(list(iter_headers(content)))
        start = position + chance.randrange(CRC_COVERED, header.size)
        if way == "bit":
            content = (
                content[:start] + bytes([content[start] ^ 1 << chance.randrange(8)]) + content[start + 1 :]
            )
        else:
            content = content[:start] + bytes(len(content) - start)
    path.write_bytes(content)
    return f"{way}, {path.name}"


def found(log: PartitionLog) -> dict[str, object]:
    """What LogJudge.java says of a log."""
    headers = headers_in(read_bytes(log)) if log.log_end_offset > log.log_start_offset else []
    producers = sorted(log.producers)
    return {
        "start": log.log_start_offset,
        "end": log.log_end_offset,
        "batches": len(headers),
        "records": sum(header.record_count for header in headers),
        "epochs": [list(entry) for entry in log.leader_epochs.entries],
        "producers": "{" + ", ".join(f"{id_}={entry.last_sequence}" for id_, entry in producers) + "}",
    }


def _without_epochs(facts: dict[str, object]) -> dict[str, object]:
    return {key: fact for key, fact in facts.items() if key != "epochs"}


def test_the_same_damage_is_truncated_at_the_same_record(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    records = 0
    for number in range(DIRECTORIES):
        root = tmp_path / str(number)
        root.mkdir()
        logs = new_logs(root)
        write_here(logs, appends(chance.randrange(10**6)))
        logs.crash()
        what = f"KAFKAPY_SEED={SEED}, directory {number}: {damage(logs.path, chance)}"
        theirs = root / "theirs" / str(TP)
        theirs.parent.mkdir()
        shutil.copytree(logs.path, theirs)
        kafka = read_log(theirs, clean=False)
        ours = Logs(root, config=logs.config, clock=logs.clock)
        own = found(ours.log)
        assert _without_epochs(own) == {key: kafka[key] for key in _without_epochs(own)}, what
        records += int(str(own["records"]))
        ours.stop()
        again = read_log(ours.path, clean=True)
        assert own == {key: again[key] for key in own}, f"{what}: Apache Kafka on what kafkapy recovered"
        recovered = Logs(root, config=logs.config, clock=logs.clock, dirs=("theirs",))
        assert _without_epochs(found(recovered.log)) == _without_epochs(own), (
            f"{what}: kafkapy on what Apache Kafka recovered"
        )
        recovered.stop()
    note("R17", "directories recovered by both, and swapped", tried=DIRECTORIES, records=records)
