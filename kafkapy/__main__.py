"""`python -m kafkapy` is the command line."""

from kafkapy.cli import main

main(prog_name="kafkapy")
