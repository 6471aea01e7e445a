"""Partition logs on disk, in Apache Kafka's own files.

It imports kafkapy.protocol only, and uses no sockets.
"""

if __name__ != "kafkapy.storage":
    raise ImportError("import it as kafkapy.storage: this folder is reached through the kafkapy package")
