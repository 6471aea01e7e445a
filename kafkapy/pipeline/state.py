"""The state of a pipeline, in the folder `_kafkapy` of its table.

    pipeline.yaml      the definition of the last run, without secrets (`secret_options.py`)
    incarnation.json   {"id", "starting_offsets": {partition: offset} | null, "trim": bool, "topic_id" | null,
                       "copied_from": [topic_id, ...], "table_id", "checkpoint": folder | null,
                       "read": {partition: [[first, end], ...]}}
    checkpoint/ID/     Spark's checkpoint of that incarnation, unless the definition names another folder
    schema.json        the schema that has been inferred so far, if the format infers one
    progress.json      the last batch and the counts
    dead_letters.json  [[topic, pipeline's name], ...] under which dead letters were written
    audited.json       up to where the rows were found right (audit/audited.py)
    expired.json       when a run deleted files of old versions last (run/maintenance.py)
    dlq.json           the dead letters that were replayed (dead_letters/replay.py)
    tombstones/        the tombstones of an upsert table (tables/tombstones.py)
    lock, jvm.lock     locked by the driver and its JVM while they run, on a local disk (`driver_lock.py`)
    lock.lease/        the driver that may write, in other stores (`stores/lease.py`)

Readers of Delta, Iceberg and Parquet ignore names that begin with an underscore. Deleting the table deletes
the state of its pipeline too.

An incarnation is one life of the checkpoint. Spark's batch ids start at 0 in each, so the table identifies a
batch by the incarnation's id too (`app_id`). A reset replaces incarnation.json, which contains the starting
offsets. That single write is the switch: before it, the old checkpoint counts; after it, the new one. `trim`
means that the table may still have rows at or after the starting offsets: they are deleted and `trim` is
cleared before anything is read (`reset.py`). `topic_id` identifies the topic of the offsets: a recreated
topic has other records. The exception is a copy with the same offsets, which a reset can accept; the former
ids are then in `copied_from`. `table_id` is the id of the first incarnation, and stays the same in all.
`read` is what the earlier incarnations have read (`read_ranges.py`).

A checkpoint in a folder of the definition's own is in TABLE_ID/ID of it, so that pipelines may share the
folder. The incarnation remembers the folder, for commands that are given the table only. The folder of a
definition counts when an incarnation begins.
"""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.state_folder import DamagedFileError, StateFolder
from kafkapy.pipeline.stores import Entry, Store, open_store
from kafkapy.pipeline.table_target import local_path


@dataclass(frozen=True, kw_only=True)
class Incarnation:
    """One life of the checkpoint."""

    id: str
    starting_offsets: Mapping[int, int] | None = None
    trim: bool = False
    topic_id: str | None = None
    copied_from: tuple[str, ...] = ()
    table_id: str | None = None
    checkpoint: str | None = None
    read: Mapping[int, tuple[tuple[int, int], ...]] = dataclasses.field(default_factory=dict)

    def of_former_topic(self, topic_id: str | None) -> bool:
        """Whether an offset means another record in that topic than here.

        False if an id is unknown.
        """
        if topic_id is None or self.topic_id is None:
            return False
        return topic_id not in (self.topic_id, *self.copied_from)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The last batch with its incarnation, and the counts since the table was created."""

    incarnation: str
    batch: int
    finished: str
    rows: int
    seconds: float
    total_rows: int
    dead_letters: int
    left_out: int = 0

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0


class State(StateFolder):
    """The state of one table's pipeline.

    Files and folders are created on the first write.
    """

    def __init__(
        self,
        location: str | os.PathLike[str],
        spark_options: Mapping[str, str] | None = None,
        checkpoints: str | None = None,
    ) -> None:
        """`checkpoints` is the folder of the definition for the checkpoint, if it names one."""
        super().__init__(location, spark_options)
        self.checkpoints = checkpoints
        self._spark_options = spark_options

    @classmethod
    def of(cls, definition: PipelineDefinition) -> State:
        """The state of a definition's table, reached as the definition starts Spark."""
        table = definition.table
        folders = [one for one in (table.folder, definition.checkpoint) if one is not None]
        local = all(local_path(folder) is not None for folder in folders)
        state = cls(table.folder, None if local else definition.spark_options, definition.checkpoint)
        kept = state.definition if table.in_catalog else None
        if kept is not None and str(kept.table) != str(table):
            raise PipelineError(
                f"state: {table.folder} has the state of the pipeline of {kept.table}, not of {table}; "
                "name another folder"
            )
        return state

    # -- the checkpoint and its incarnations

    @property
    def incarnation(self) -> Incarnation | None:
        """The present incarnation; None before the first run, or if its file is lost.

        A run finds that the table has rows then, and refuses (`run/run.py`); a reset begins another one.
        """
        value = self._known("incarnation.json")
        if value is None:
            return None
        offsets = value["starting_offsets"]
        return Incarnation(
            id=value["id"],
            starting_offsets=None if offsets is None else {int(p): offset for p, offset in offsets.items()},
            trim=value["trim"],
            topic_id=value.get("topic_id"),
            copied_from=tuple(value.get("copied_from", ())),
            table_id=value.get("table_id"),
            checkpoint=value.get("checkpoint"),
            read={
                int(partition): tuple((first, end) for first, end in ranges)
                for partition, ranges in value.get("read", {}).items()
            },
        )

    def begin(self) -> Incarnation:
        """The present incarnation.

        The first run creates it; it then starts where the definition says.
        """
        if (present := self.incarnation) is not None:
            return present
        fresh = _fresh_id()
        return self._switch(Incarnation(id=fresh, table_id=fresh, checkpoint=self.checkpoints))

    def begin_anew(
        self,
        starting_offsets: Mapping[int, int],
        *,
        trim: bool,
        topic_id: str | None = None,
        copied_from: tuple[str, ...] = (),
        read: Mapping[int, tuple[tuple[int, int], ...]] | None = None,
    ) -> Incarnation:
        """Begins an incarnation with an empty checkpoint that starts at these offsets."""
        former = self.begin()
        return self._switch(
            Incarnation(
                id=_fresh_id(),
                starting_offsets=dict(starting_offsets),
                trim=trim,
                topic_id=topic_id,
                copied_from=copied_from,
                table_id=former.table_id or former.id,
                checkpoint=self.checkpoints,
                read=dict(read or {}),
            )
        )

    def begin_with(self, topic_id: str | None) -> Incarnation:
        """The present incarnation or a new one.

        Its topic id is set to this one if it has none.
        """
        present = self.begin()
        known = dataclasses.replace(
            present, topic_id=present.topic_id or topic_id, table_id=present.table_id or present.id
        )
        return present if known == present else self._switch(known)

    def trimmed(self) -> Incarnation:
        """Clears `trim`: the table has no more rows at or after the starting offsets."""
        return self._switch(dataclasses.replace(self.begin(), trim=False))

    def _switch(self, incarnation: Incarnation) -> Incarnation:
        self.write_json("incarnation.json", dataclasses.asdict(incarnation))
        return incarnation

    @property
    def checkpoint(self) -> str:
        """The path or URI of Spark's checkpoint of the present incarnation."""
        present = self.begin()
        folder = present.checkpoint
        if folder is None:
            return f"{self.location}/{self._checkpoint_of(present)}"
        path = local_path(folder)  # Spark would take a bare path for one in Hadoop's default file system.
        return f"{folder if path is None else f'file://{path}'}/{self._checkpoint_of(present)}"

    def read_checkpoint(self, name: str) -> tuple[bytes | None, bytes | None]:
        """The content of a file of the checkpoint, and that of the file with its checksums.

        None if there is no such file.
        """
        if (present := self.incarnation) is None:
            return None, None
        store = self._checkpoint_store(present)
        folder, _, last = f"{self._checkpoint_of(present)}/{name}".rpartition("/")
        try:
            content = store.read(f"{folder}/{last}")
            return content, None if content is None else store.read(f"{folder}/.{last}.crc")
        except OSError as error:
            raise PipelineError(f"{self.checkpoint}/{name}: cannot be read: {error}") from None

    def checkpoint_entries(self, name: str) -> list[Entry]:
        """What is in a folder of the checkpoint; nothing if there is none."""
        if (present := self.incarnation) is None:
            return []
        path = f"{self._checkpoint_of(present)}/{name}"
        try:
            return self._checkpoint_store(present).entries(path)
        except OSError as error:
            raise PipelineError(f"{self.checkpoint}/{name}: cannot be read: {error}") from None

    def forget_old_checkpoints(self) -> None:
        if (present := self.incarnation) is None:
            return
        store = self._checkpoint_store(present)
        folder, _, kept = self._checkpoint_of(present).rpartition("/")
        try:
            for entry in store.entries(folder):
                if entry.is_folder and entry.name != kept:
                    store.delete_folder(f"{folder}/{entry.name}")
        except OSError as error:
            raise PipelineError(f"{self.checkpoint}: old ones cannot be deleted: {error}") from None

    def _checkpoint_store(self, present: Incarnation) -> Store:
        folder = present.checkpoint
        return self.store if folder is None else open_store(folder, self._spark_options)

    def _checkpoint_of(self, present: Incarnation) -> str:
        """The path of an incarnation's checkpoint within its store."""
        if present.checkpoint is None:
            return f"{self.FOLDER}/checkpoint/{present.id}"
        return f"{present.table_id or present.id}/{present.id}"

    def app_id(self, name: str) -> str:
        """The writer's id in the table.

        Within one id, a batch id always means the same batch.
        """
        return f"kafkapy-{name}-{self.begin().id}"

    # -- other state

    @property
    def definition(self) -> PipelineDefinition | None:
        """The definition of the last run, with absolute paths and without secrets; None before it."""
        return PipelineDefinition.kept_in(self)

    @definition.setter
    def definition(self, definition: PipelineDefinition) -> None:
        definition.keep_in(self)

    @property
    def progress(self) -> Progress | None:
        """The last batch; None before the first one.

        If its file is damaged, only the counts are lost: they begin again.
        """
        value = self._known("progress.json")
        return None if value is None else Progress(**value)

    @progress.setter
    def progress(self, progress: Progress) -> None:
        self.write_json("progress.json", dataclasses.asdict(progress))

    @property
    def schema(self) -> Any:
        """The columns that the format has inferred so far, as it stored them.

        None if it stored nothing.
        """
        return self.read_json("schema.json")

    @schema.setter
    def schema(self, schema: Any) -> None:
        self.write_json("schema.json", schema)

    @property
    def dead_letter_places(self) -> list[tuple[str, str]]:
        """The (topic, pipeline's name) pairs of all dead letters so far.

        Both may change between runs.
        """
        return [(topic, name) for topic, name in self.read_json("dead_letters.json") or ()]

    def note_dead_letters(self, topic: str, name: str) -> None:
        if (topic, name) not in (places := self.dead_letter_places):
            self.write_json("dead_letters.json", [*places, (topic, name)])

    @property
    def audited(self) -> dict[str, Any]:
        """What incremental audits have found right, as they stored it."""
        return dict(self._known("audited.json") or {})

    @audited.setter
    def audited(self, audited: dict[str, Any]) -> None:
        self.write_json("audited.json", audited)

    def forget_audits(self) -> None:
        """Lets the next incremental audit compare everything."""
        if self.audited:
            self.audited = {}

    @property
    def expired(self) -> datetime | None:
        """When a run deleted files of old versions last; None before the first run that may."""
        value = self._known("expired.json")
        return None if value is None else datetime.fromisoformat(value)

    @expired.setter
    def expired(self, moment: datetime) -> None:
        self.write_json("expired.json", moment.isoformat(timespec="seconds"))

    def _known(self, name: str) -> Any:
        """The JSON of a file; None if there is none, or if it is damaged."""
        try:
            return self.read_json(name)
        except DamagedFileError:
            return None


def _fresh_id() -> str:
    return uuid.uuid4().hex[:12]
