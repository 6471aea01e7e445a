"""Collects what a maintainer asks for into one archive, without secrets."""
