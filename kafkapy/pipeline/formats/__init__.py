"""How the bytes of records become columns: raw, JSON, Avro, Protobuf."""

from kafkapy.pipeline.formats.format import Format, open_format

__all__ = ["Format", "open_format"]
