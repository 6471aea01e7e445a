"""`kafkapy backup`, `restore` and `prune`: data directories in a store, by their files.

    backups/2026-11-30T07:00:00.000Z.json    a backup: which files its directory had, and their hashes
    files/ab/abcd…                           the content of a file, by its SHA-256
    turns/5f2c….json                         a command that writes to the store now

A file that several backups have is there once. A backup is written after all its files, so one that was
interrupted does not exist, and the next finds the files that it has brought.
"""
