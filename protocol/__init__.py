"""Kafka's wire protocol and record format: bytes to objects and back. No I/O, no asyncio."""

if __name__ != "kafkapy.protocol":
    raise ImportError("import it as kafkapy.protocol: this folder is reached through the kafkapy package")
