"""Tables of settings, one per line: Apache Kafka's, by type of resource, and kafkapy's own.

Columns: name, type, default, valid values, dynamic, sensitive, server synonyms. A default of `(null)` is
Kafka's null. A row of `kafkapy_configs.tsv` adds a setting, or replaces Kafka's row of the same name. The
comment before a row gives the reason, for all rows up to the next comment; `##` is a heading. The reasons are
shown in `docs/settings.md`. `kafkapy.configs.keys` reads the tables.
"""
