"""`kafkapy dump-log`: what lies in the files of a data directory, as Apache Kafka's kafka-dump-log shows it.

    file_kinds.py       which file is what, and which files a directory has
    batches.py          segment files and KRaft snapshots: batches and records
    indexes.py          offset, time and transaction indexes; held against their log
    small_files.py      producer snapshots, checkpoints, partition.metadata, meta.properties, the marker
    decoders.py         keys and values of the broker's own topics
    message_json.py     any message of the protocol as JSON, with Kafka's names
    text.py             facts as the lines that kafka-dump-log prints

Each file becomes a series of facts (fact.py): with --json as they are, else as text. The names in a fact are
those that kafka-dump-log prints, so that both can be compared, and whatever reads the one reads the other.

Files are opened for reading alone; a broker that runs on them notices nothing.
"""
