"""The contract of the metadata tree, held by ZooKeeper."""

from __future__ import annotations

from tests.metadata import test_metadata_store as contract

globals().update({name: test for name, test in vars(contract).items() if name.startswith("test_")})
