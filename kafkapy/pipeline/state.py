"""What a pipeline remembers, in the folder `_kafkapy` of its table.

    pipeline.yaml      the definition as it was last run, without secrets (`secret_options.py`)
    incarnation.json   {"id", "starting_offsets": {partition: offset} | null, "trim": bool, "topic_id" | null,
                       "copied_from": [topic_id, ...], "table_id", "read": {partition: [[first, end], ...]}}
    checkpoint/ID/     Spark's checkpoint of that incarnation
    schema.json        the schema that an inferring format has found so far
    progress.json      the last batch and the counts
    dead_letters.json  [[topic, pipeline's name], ...] under which dead letters were written
    dlq.json           which dead letters were replayed (dead_letters/replay.py)
    lock               held (flock) by the driver while it runs; its process id

Readers of Delta, Iceberg and Parquet ignore names that begin with an underscore; who deletes the table
deletes its pipeline's memory too.

An incarnation is one life of the checkpoint: Spark's batch ids start at 0 in each, so the id of the
incarnation is part of what makes a batch known to the table (`app_id`). A reset writes incarnation.json
anew, with the offsets to start from, and that one write is the whole switch: killed before it, the old
checkpoint counts; after it, the new one does. `trim` says that rows at or after the starting offsets may
still be in the table: whoever finds it set deletes them and clears it before reading on (`reset.py`).
`topic_id` is the topic that the offsets are of: a later one of the same name has other records, but for a
copy with the same offsets, to which a reset said that it goes on; the ids before are `copied_from` then.
`table_id` is the id of the first incarnation, which all have in common. `read` is what those before have read
(`read_ranges.py`).

Small files are replaced whole. On a local disk by a rename, synced before and after. Elsewhere a rename may
not replace, or the store may have none: the text is first written whole as NAME.next, then NAME is deleted
and NAME.next moved; a reader that finds no NAME takes NAME.next, which is whole by then.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyarrow import fs

from kafkapy.pipeline.definition import PipelineDefinition, local_path
from kafkapy.pipeline.pipeline_error import PipelineError

_LOCK_PATIENCE: Final = 1.0  # seconds; a look at the lock by `running` holds it for an instant


@dataclass(frozen=True, kw_only=True)
class Incarnation:
    """One life of the checkpoint."""

    id: str
    starting_offsets: Mapping[int, int] | None = None
    trim: bool = False
    topic_id: str | None = None
    copied_from: tuple[str, ...] = ()
    table_id: str | None = None
    read: Mapping[int, tuple[tuple[int, int], ...]] = dataclasses.field(default_factory=dict)

    def of_former_topic(self, topic_id: str | None) -> bool:
        """Whether an offset of that topic is the place of another record; not if an id is unknown."""
        if topic_id is None or self.topic_id is None:
            return False
        return topic_id not in (self.topic_id, *self.copied_from)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The last batch that was written, of that incarnation, and the counts since the table began."""

    incarnation: str
    batch: int
    finished: str
    rows: int
    seconds: float
    total_rows: int
    dead_letters: int

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0


class State:
    """The state folder of the table at `location`, a path or a URI; nothing is made before it is written."""

    FOLDER: Final = "_kafkapy"

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self.location = os.fspath(location).rstrip("/") or "/"
        self._local = local_path(self.location)
        try:
            self.filesystem, base = _open_filesystem(self.location)
        except (OSError, ValueError, ImportError) as error:
            raise PipelineError(f"{self.location}: cannot be reached: {error}") from None
        self.root: str = f"{base.rstrip('/')}/{self.FOLDER}"

    # -- the checkpoint and its incarnations

    @property
    def incarnation(self) -> Incarnation | None:
        """None before the first run."""
        value = self.read_json("incarnation.json")
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
            read={
                int(partition): tuple((first, end) for first, end in ranges)
                for partition, ranges in value.get("read", {}).items()
            },
        )

    def begin(self) -> Incarnation:
        """The present incarnation; at the first run a new one, which starts where the definition says."""
        if (present := self.incarnation) is not None:
            return present
        fresh = _fresh_id()
        return self._switch(Incarnation(id=fresh, table_id=fresh))

    def begin_anew(
        self,
        starting_offsets: Mapping[int, int],
        *,
        trim: bool,
        topic_id: str | None = None,
        copied_from: tuple[str, ...] = (),
        read: Mapping[int, tuple[tuple[int, int], ...]] | None = None,
    ) -> Incarnation:
        """Leaves the present checkpoint for an empty one that starts at these offsets."""
        former = self.begin()
        return self._switch(
            Incarnation(
                id=_fresh_id(),
                starting_offsets=dict(starting_offsets),
                trim=trim,
                topic_id=topic_id,
                copied_from=copied_from,
                table_id=former.table_id or former.id,
                read=dict(read or {}),
            )
        )

    def begin_with(self, topic_id: str | None) -> Incarnation:
        """The present incarnation or a new one, of this topic if it is not known yet of which."""
        present = self.begin()
        known = dataclasses.replace(
            present, topic_id=present.topic_id or topic_id, table_id=present.table_id or present.id
        )
        return present if known == present else self._switch(known)

    def trimmed(self) -> Incarnation:
        """The table holds nothing at or after the starting offsets any more."""
        return self._switch(dataclasses.replace(self.begin(), trim=False))

    def _switch(self, incarnation: Incarnation) -> Incarnation:
        self.write_json("incarnation.json", dataclasses.asdict(incarnation))
        return incarnation

    @property
    def checkpoint(self) -> str:
        """The path or URI of Spark's checkpoint, of the present incarnation."""
        return f"{self.location}/{self.FOLDER}/checkpoint/{self.begin().id}"

    @property
    def checkpoint_path(self) -> str | None:
        """The same within `filesystem`; None before the first run."""
        present = self.incarnation
        return None if present is None else f"{self.root}/checkpoint/{present.id}"

    def forget_old_checkpoints(self) -> None:
        present = self.checkpoint_path
        for entry in self._entries(f"{self.root}/checkpoint"):
            if entry.path != present and entry.type == fs.FileType.Directory:
                self.filesystem.delete_dir(entry.path)

    def app_id(self, name: str) -> str:
        """Who writes batches, as the table knows it: batch ids repeat only within an incarnation."""
        return f"kafkapy-{name}-{self.begin().id}"

    # -- what else is remembered

    @property
    def definition(self) -> PipelineDefinition | None:
        """As it was last run, its paths absolute, without secrets that stood in it."""
        text = self.read_text("pipeline.yaml")
        if text is None:
            return None
        return PipelineDefinition.parse(text, source=f"{self.location}/{self.FOLDER}/pipeline.yaml")

    @definition.setter
    def definition(self, definition: PipelineDefinition) -> None:
        self.write_text("pipeline.yaml", definition.without_secrets().to_yaml())

    @property
    def progress(self) -> Progress | None:
        value = self.read_json("progress.json")
        return None if value is None else Progress(**value)

    @progress.setter
    def progress(self, progress: Progress) -> None:
        self.write_json("progress.json", dataclasses.asdict(progress))

    @property
    def schema(self) -> Any:
        """What the format has written of the columns found so far, None before."""
        return self.read_json("schema.json")

    @schema.setter
    def schema(self, schema: Any) -> None:
        self.write_json("schema.json", schema)

    @property
    def dead_letter_places(self) -> list[tuple[str, str]]:
        """(topic, pipeline's name) of all dead letters so far; both may change between runs."""
        return [(topic, name) for topic, name in self.read_json("dead_letters.json") or ()]

    def note_dead_letters(self, topic: str, name: str) -> None:
        if (topic, name) not in (places := self.dead_letter_places):
            self.write_json("dead_letters.json", [*places, (topic, name)])

    # -- one driver at a time

    @contextlib.contextmanager
    def lock(self, name: str = "lock", *, held: str = "its pipeline is running already") -> Iterator[None]:
        """Holds the pipeline for this process. A store without locks (S3, HDFS) is not locked.

        Another `name` is another lock; `held` says what another process does that has it.
        """
        if self._local is None:
            yield
            return
        try:
            self.filesystem.create_dir(self.root)
            descriptor = os.open(f"{self.root}/{name}", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise PipelineError(f"{self.location}: cannot be written: {error}; name another folder") from None
        try:
            deadline = time.monotonic() + _LOCK_PATIENCE
            while not _try_lock(descriptor, fcntl.LOCK_EX):
                if time.monotonic() >= deadline:
                    owner = os.pread(descriptor, 20, 0).decode() or "unknown"
                    raise PipelineError(f"{self.location}: {held} (process {owner}); stop that first")
                time.sleep(0.02)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(descriptor)

    @property
    def running(self) -> int | None:
        """The process that holds the lock; None when no process does, or there is no lock to see."""
        if self._local is None:
            return None
        try:
            descriptor = os.open(f"{self.root}/lock", os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            if _try_lock(descriptor, fcntl.LOCK_SH):
                return None
            return int(os.pread(descriptor, 20, 0) or 0)
        finally:
            os.close(descriptor)

    # -- small files

    def read_text(self, name: str) -> str | None:
        for path in (f"{self.root}/{name}", f"{self.root}/{name}.next"):
            if (text := self.read_path(path)) is not None:
                return text
        return None

    def read_path(self, path: str) -> str | None:
        """A file's text by its path in `filesystem`, None when there is no such file."""
        try:
            with self.filesystem.open_input_stream(path, compression=None) as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ENOTDIR:
                return None
            raise PipelineError(f"{path}: cannot be read: {error}") from None

    def write_text(self, name: str, text: str) -> None:
        path = f"{self.root}/{name}"
        try:
            self.filesystem.create_dir(self.root)
            if self._local is not None:
                _replace(Path(path), text.encode())
                return
            with self.filesystem.open_output_stream(f"{path}.next", compression=None) as stream:
                stream.write(text.encode())
            if self.filesystem.get_file_info(path).type != fs.FileType.NotFound:
                self.filesystem.delete_file(path)
            self.filesystem.move(f"{path}.next", path)
        except OSError as error:
            raise PipelineError(f"{path}: cannot be written: {error}") from None

    def read_json(self, name: str) -> Any:
        text = self.read_text(name)
        if text is None:
            return None
        try:
            return json.loads(text)
        except ValueError:
            raise PipelineError(
                f"{self.root}/{name}: damaged, not JSON; restore it, or start over: kafkapy pipeline reset"
            ) from None

    def write_json(self, name: str, value: Any) -> None:
        self.write_text(name, json.dumps(value, indent=1))

    def names_in(self, folder: str) -> list[str]:
        """The names of a folder of `filesystem`, none when there is no such folder."""
        return [entry.base_name for entry in self._entries(folder)]

    def _entries(self, folder: str) -> list[Any]:
        selector = fs.FileSelector(folder, allow_not_found=True)
        return list(self.filesystem.get_file_info(selector))


def _fresh_id() -> str:
    return uuid.uuid4().hex[:12]


def _open_filesystem(location: str) -> tuple[Any, str]:
    local = local_path(location)
    if local is not None:
        return fs.LocalFileSystem(), str(local.absolute())
    scheme, _, rest = location.partition(":")
    # Hadoop's name of the S3 connector; the object store is the same.
    filesystem, path = fs.FileSystem.from_uri(f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{rest}")
    return filesystem, path


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _replace(path: Path, content: bytes) -> None:
    following = path.with_name(f"{path.name}.tmp")
    with following.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    following.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
