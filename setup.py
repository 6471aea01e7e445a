"""The optional compiled part: without a compiler the package installs and works with its pure Python twin."""

import sysconfig

from setuptools import Extension, setup

# One binary serves CPython 3.11 and later. The free-threaded build has no stable ABI.
stable_abi = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    ext_modules=[
        Extension(
            "kafkapy.protocol._walker",
            ["kafkapy/protocol/_walker.c"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if stable_abi else [],
            extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra"],
            py_limited_api=stable_abi,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if stable_abi else {},
)
