"""What a Spark session needs, looked at without a JVM."""
