"""Tests of what a Spark session needs, without a JVM."""
