"""Internal topics as the memory of coordinators."""
