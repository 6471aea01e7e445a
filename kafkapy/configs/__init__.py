"""Tables of settings, one a line: Apache Kafka's, by what has them, and kafkapy's own.

Columns: name, type, default, valid values, dynamic, sensitive, server synonyms. `(null)` is Kafka's null
default. A row of `kafkapy_configs.tsv` adds a setting or replaces the Kafka row of the same name, with a
comment that says why, for the rows up to the next comment (`##` is a heading); `docs/settings.md` shows it.
`kafkapy.configs.keys` reads them.
"""
