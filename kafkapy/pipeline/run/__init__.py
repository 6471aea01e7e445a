"""A running pipeline: its streaming query, batches and progress."""
