"""Stock clients and tools against the broker, one folder each; not part of the installed package."""
