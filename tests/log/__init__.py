"""Topics read from segment files, without a broker and without Spark."""
