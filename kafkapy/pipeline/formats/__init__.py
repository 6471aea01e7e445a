"""How the bytes of records become columns: raw, JSON, Avro, Protobuf."""

from kafkapy.pipeline.formats.format import Format
from kafkapy.pipeline.formats.opening import open_format

__all__ = ["Format", "open_format"]
