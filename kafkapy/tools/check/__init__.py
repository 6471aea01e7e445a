"""`kafkapy check`: finds damage in a data directory, without a broker or any change.

    layout.py            what a path is: log directories, or one partition
    check.py             the complete check
    directory_check.py   a log directory: its ids, checkpoints and leftovers, whether a broker holds its lock
    contradictions.py    directories against each other: owners, copies of partitions, topic ids
    kraft_check.py       KRaft's own files, and kafkapy's metadata.db
    partition_check.py   one partition: its segments in order, and its log against the checkpoints
    segment_check.py     one segment: every batch, with --deep every record
    index_check.py       the offset and time index of a segment against its batches
    txn_index_check.py   the transaction index of a segment against its markers
    partition_files.py   the leader epochs and the topic id of a partition
    known_damage.py      the damage that a broker has noted
    start_check.py       what the next start would do to one log
    finding.py           one problem, its severity, and its remedy

Files are read with the modules with which a broker reads them. A problem below an offset that was known to be
on disk is damage. A problem above it may be the result of a crash, and the next start repairs it. A directory
can be checked while a broker runs on it. The part that the broker is writing is not checked. An OSError of a
file ends the check of its partition or directory; check.py notes what could not be read.
"""
