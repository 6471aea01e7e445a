"""The CRC-32C, which is that of the package crc32c without the imports of the package."""

from __future__ import annotations

import subprocess
import sys

import crc32c as package
import pytest

from kafkapy.protocol.crc import crc32c

ASK = """
import sys
{before}
from kafkapy.protocol.crc import crc32c
print(crc32c(b"123456789") == 0xE3069283, "email" in sys.modules)
import crc32c as package
print(package.crc32c(b"123456789") == 0xE3069283)
"""


@pytest.mark.parametrize("data", [b"", b"123456789", bytes(1 << 16)])
def test_the_crc_is_that_of_the_package(data: bytes) -> None:
    assert crc32c(data) == package.crc32c(data)
    assert crc32c(memoryview(bytearray(data))) == package.crc32c(data)


@pytest.mark.parametrize(("before", "whole"), [("", False), ("import crc32c", True)])
def test_only_the_extension_is_imported_unless_the_package_is_there(before: str, whole: bool) -> None:
    run = subprocess.run(
        [sys.executable, "-c", ASK.format(before=before)], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["True", str(whole), "True"]
