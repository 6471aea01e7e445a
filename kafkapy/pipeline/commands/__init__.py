"""The command line of pipelines."""
