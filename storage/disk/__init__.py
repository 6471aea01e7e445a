"""The disk: file operations, descriptors, space, names, log directories and small files."""
