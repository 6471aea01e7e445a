"""Topics as tables of other programs, by Arrow."""
