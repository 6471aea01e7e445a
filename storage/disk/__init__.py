"""The disk: file operations, descriptors, space, log directories and their small files."""
