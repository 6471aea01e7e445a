"""The optional compiled parts: without a compiler the package works with their twins in pure Python."""

import sysconfig

from setuptools import Extension, setup

# One binary serves CPython 3.11 and later. The free-threaded build has no stable ABI.
stable_abi = not sysconfig.get_config_var("Py_GIL_DISABLED")


def extension(name: str, folder: str, sources: list[str], headers: list[str]) -> Extension:
    return Extension(
        name,
        [f"{folder}/{source}" for source in sources],
        depends=[f"{folder}/{header}" for header in headers],
        define_macros=[("Py_LIMITED_API", "0x030B0000")] if stable_abi else [],
        extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra"],
        py_limited_api=stable_abi,
        optional=True,
    )


setup(
    ext_modules=[
        extension("kafkapy.protocol._walker", "kafkapy/protocol", ["_walker.c"], []),
        extension("kafkapy.storage.disk._sync_queue", "kafkapy/storage/disk", ["_sync_queue.c"], []),
        extension("kafkapy.storage.disk._write_probe", "kafkapy/storage/disk", ["_write_probe.c"], []),
        extension(
            "kafkapy.storage.cleaning._compactor",
            "kafkapy/storage/cleaning",
            ["_compactor.c", "_key_index.c", "_batch_filter.c", "_digests.c"],
            ["_records.h", "_digests.h"],
        ),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if stable_abi else {},
)
