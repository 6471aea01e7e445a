"""Topics become tables on Spark, exactly once, and back."""
