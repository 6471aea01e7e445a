"""Files of a table's folder through Hadoop's FileSystem, as Spark reaches them.

A rename is atomic on local disks and HDFS. An object store has no rename: S3's connector copies and deletes
file by file. A reader may then see part of a folder for a moment, and a killed writer leaves both folders.

Of several processes that `create` a file, one succeeds: HDFS, Azure's Data Lake and Google Cloud promise
it for Hadoop's `create` without overwriting. Google's store refuses the others at the close. Hadoop's
connector of S3 looks first and puts then, at least until 3.4.1. So S3 is asked through the connector's own
client, with the condition that there is no such key (`If-None-Match: *`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

_SDK: Final = "software.amazon.awssdk"
_TAKEN: Final = (409, 412)  # S3: another put of this key is under way, or was there first


class HadoopFiles:
    """The folder at `location`; paths are relative to it.

    It is reached in the JVM of Spark's session, or in one without a session, which is started with
    `spark_options`. Errors of the store are OSErrors.
    """

    def __init__(self, location: str, spark_options: Mapping[str, str] | None = None) -> None:
        self.location = location
        self._spark_options = spark_options or {}
        self._reached: tuple[object, Any, Any] | None = None

    def _opened(self) -> tuple[Any, Any]:
        """The present JVM and its file system.

        The start of a session ends a JVM without one.
        """
        from pyspark import SparkContext

        from kafkapy.spark.hadoop import file_system

        if self._reached is None or self._reached[0] is not SparkContext._gateway:
            jvm, filesystem = file_system(self.location, self._spark_options)
            self._reached = SparkContext._gateway, jvm, filesystem
        return self._reached[1:]

    @property
    def _filesystem(self) -> Any:
        return self._opened()[1]

    def _class(self, name: str) -> Any:
        # py4j also reaches it as `jvm.org.apache.…`, but then it looks for a class of each part's name.
        return getattr(self._opened()[0], name)

    def _path(self, path: str) -> Any:
        new_path = self._class("org.apache.hadoop.fs.Path")
        return new_path(new_path(self.location), path) if path else new_path(self.location)

    def uri(self, path: str) -> str:
        return str(self._path(path).toString())

    def path(self) -> str:
        """The absolute path of the folder, without a scheme and a host."""
        return str(self._filesystem.makeQualified(self._path("")).toUri().getPath())

    def exists(self, path: str) -> bool:
        with _one_line():
            return bool(self._filesystem.exists(self._path(path)))

    def is_file(self, path: str = "") -> bool:
        try:
            with _one_line():
                return bool(self._filesystem.getFileStatus(self._path(path)).isFile())
        except FileNotFoundError:
            return False

    def entries(self, path: str = "") -> list[tuple[str, bool]]:
        """The names in a folder, sorted, and which of them are folders; none if it does not exist."""
        try:
            with _one_line():
                found = self._filesystem.listStatus(self._path(path))
                return sorted((str(one.getPath().getName()), bool(one.isDirectory())) for one in found)
        except FileNotFoundError:
            return []

    def names(self, path: str = "") -> list[str]:
        """The names in a folder, sorted; none if it does not exist."""
        return [name for name, _ in self.entries(path)]

    def sizes(self, path: str = "") -> dict[str, int]:
        """The bytes of each file in a folder, by its name; none if it does not exist."""
        try:
            with _one_line():
                found = self._filesystem.listStatus(self._path(path))
                return {str(one.getPath().getName()): int(one.getLen()) for one in found if one.isFile()}
        except FileNotFoundError:
            return {}

    def rename(self, path: str, other: str) -> None:
        """Renames a file or folder.

        `other` must not exist, since Hadoop would move `path` into it.
        """
        if self.exists(other):
            raise FileExistsError(self.uri(other))
        with _one_line():
            self._filesystem.mkdirs(self._path(other).getParent())
            if not self._filesystem.rename(self._path(path), self._path(other)):
                raise OSError(f"{self.uri(path)} could not be renamed to {self.uri(other)}")

    def delete(self, path: str) -> bool:
        """Deletes a file, or a folder with its content.

        Returns whether it existed.
        """
        with _one_line():
            return bool(self._filesystem.delete(self._path(path), True))

    def read(self, path: str) -> bytes:
        while True:
            try:
                return self._read(path)
            except _ChangedError:
                pass

    def _read(self, path: str) -> bytes:
        with _one_line():
            stream = self._filesystem.open(self._path(path))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def read_text(self, path: str) -> str:
        return self.read(path).decode(errors="replace")

    def write(self, path: str, content: bytes) -> None:
        """Writes a file, whether it exists or not; a reader may see a part of it."""
        with _one_line():
            self._write(path, content, overwrite=True)

    def write_text(self, path: str, text: str) -> None:
        self.write(path, text.encode())

    def create(self, path: str, content: bytes) -> bool:
        """Creates a file, or returns False if it exists.

        Of several that try at the same time one gets True.
        """
        if self.location.startswith("s3a:"):
            return self._put_if_absent(path, content)
        try:
            with _one_line():
                self._write(path, content, overwrite=False)
        except FileExistsError:
            return False
        return True

    def _write(self, path: str, content: bytes, *, overwrite: bool) -> None:
        stream = self._filesystem.create(self._path(path), overwrite)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def _put_if_absent(self, path: str, content: bytes) -> bool:
        from py4j.protocol import Py4JJavaError

        uri = self._path(path).toUri()
        condition = self._class(f"{_SDK}.awscore.AwsRequestOverrideConfiguration").builder()
        request = self._class(f"{_SDK}.services.s3.model.PutObjectRequest").builder()
        request = request.bucket(uri.getAuthority()).key(uri.getPath()[1:])
        request = request.overrideConfiguration(condition.putHeader("If-None-Match", "*").build()).build()
        body = self._class(f"{_SDK}.core.sync.RequestBody").fromBytes(bytearray(content))
        with _one_line():
            client = self._filesystem.getS3AInternals().getAmazonS3Client("create a lease")
            try:
                client.putObject(request, body)
            except Py4JJavaError as error:
                thrown = error.java_exception
                if thrown.getClass().getName().endswith(".S3Exception") and thrown.statusCode() in _TAKEN:
                    return False
                raise
        return True

    def jvm_process(self) -> int:
        """The id of the JVM's process."""
        return int(self._class("java.lang.ProcessHandle").current().pid())


class _ChangedError(OSError):
    """The file was written again between the two requests with which S3's connector opens it."""


def _was_first(thrown: Any) -> bool:
    """Whether Google's store has refused an upload, since another one was first."""
    while thrown is not None:
        if str(thrown.getMessage()).startswith("412 Precondition Failed"):
            return True
        thrown = thrown.getCause()
    return False


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """Raises a Java exception as an OSError with the first line of its message."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except Py4JJavaError as error:
        name = str(error.java_exception.getClass().getName()).rpartition(".")[2]
        if _was_first(error.java_exception):
            raise FileExistsError("another process has written this file") from None
        told = str(error.java_exception.getMessage() or name).strip().partition("\n")[0]
        kinds = {"FileNotFoundException": FileNotFoundError, "FileAlreadyExistsException": FileExistsError}
        changed = name == "RemoteFileChangedException" or "Status Code: 412" in told
        raise (_ChangedError if changed else kinds.get(name, OSError))(told) from None
    except PySparkException as error:
        raise OSError(str(error).strip().partition("\n")[0]) from None
