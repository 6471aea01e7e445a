"""Faults, kills and the clock of `kafkapy run` by HTTP, for tests in any language."""
