"""Kafka's wire protocol and record format: encoding and decoding.

No module here does I/O or uses asyncio.
"""

if __name__ != "kafkapy.protocol":
    raise ImportError("import this package as kafkapy.protocol, not as protocol")
