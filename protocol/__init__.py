"""Kafka's wire protocol and record format: bytes to objects and back.

Nothing here does I/O or uses asyncio.
"""

if __name__ != "kafkapy.protocol":
    raise ImportError("import this package as kafkapy.protocol, not as protocol")
