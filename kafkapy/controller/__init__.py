"""The controller: what changes the metadata tree, and in which order."""
