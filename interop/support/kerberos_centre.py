"""MIT Kerberos's key distribution centre, with a realm of its own on 127.0.0.1."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

import pytest

from interop.support.debian import installed
from interop.support.waiting import wait_until
from tests.ports import free_ports

REALM: Final = "KAFKAPY.TEST"
_PACKAGES: Final = {"krb5kdc": "krb5-kdc", "kadmin.local": "krb5-admin-server", "kinit": "krb5-user"}


def skip_without_kerberos() -> None:
    """Skip the test if the centre's programs or python-gssapi are missing."""
    for command, package in _PACKAGES.items():
        if why := installed(command, package):
            pytest.skip(why)
    pytest.importorskip("gssapi", reason="python-gssapi is not installed: pip install '.[kerberos]'")


def key_line(keytab: Path, principal: str) -> str:
    """The JAAS line of a program that proves its name by a keytab."""
    return (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{keytab}" principal="{principal}@{REALM}";'
    )


@contextmanager
def own_centre(folder: Path, realm: str = REALM, port: int | None = None) -> Iterator[KerberosCentre]:
    """A running centre, to which this process and those that it starts belong."""
    skip_without_kerberos()
    with KerberosCentre(folder, realm, port) as started, pytest.MonkeyPatch.context() as patch:
        for name, value in started.environment.items():
            patch.setenv(name, value)
        yield started


class KerberosCentre:
    """A running centre; its programs and the library find it by `environment`.

    Without a port, it listens on a free one.
    """

    def __init__(self, folder: Path, realm: str = REALM, port: int | None = None) -> None:
        self._folder, self._realm = folder, realm
        self._process: subprocess.Popen[bytes] | None = None
        self._port = port or free_ports(1)[0]
        self.config = folder / "krb5.conf"
        self.config.write_text(
            f"[libdefaults]\n default_realm = {realm}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
            f"[realms]\n {realm} = {{\n  kdc = 127.0.0.1:{self._port}\n }}\n"
        )
        self._kdc_config = folder / "kdc.conf"
        self._kdc_config.write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{self._port}\n kdc_tcp_listen = 127.0.0.1:{self._port}\n"
            f"[realms]\n {realm} = {{\n  database_name = {folder}/principal\n"
            f"  key_stash_file = {folder}/stash\n  acl_file = {folder}/kadm5.acl\n }}\n"
            f"[logging]\n kdc = FILE:{folder}/kdc.log\n"
        )

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which programs find the centre, and write to no other place."""
        return {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self._kdc_config),
            "KRB5RCACHENAME": f"dfl:{self._folder}",
            "KRB5RCACHEDIR": str(self._folder),
        }

    def __enter__(self) -> KerberosCentre:
        self._run("kdb5_util", "create", "-s", "-r", self._realm, "-P", "master")
        log = (self._folder / "kdc.out").open("wb")
        self._process = subprocess.Popen(
            ["krb5kdc", "-n"], env=os.environ | self.environment, stdout=log, stderr=log
        )
        log.close()
        try:
            wait_until(self._answers)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def add(self, name: str, *, keytab: str | None = None) -> Path:
        """Make a principal with a new random key; return the keytab that has it."""
        path = self._folder / (keytab or f"{name.replace('/', '_')}.keytab")
        self._admin(f"addprinc -randkey {name}")
        self._admin(f"ktadd -k {path} {name}")
        return path

    def add_user(self, name: str, password: str) -> None:
        """Make a principal with a password."""
        self._admin(f"addprinc -pw {password} {name}")

    def change_key(self, name: str, keytab: Path) -> None:
        """Give a principal another key, and add it to the keytab."""
        self._admin(f"ktadd -k {keytab} {name}")

    def remove(self, name: str) -> None:
        """Forget a principal."""
        self._admin(f"delprinc -force {name}")

    def _admin(self, query: str) -> None:
        self._run("kadmin.local", "-r", self._realm, "-q", query)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [program, *arguments],
            env=os.environ | self.environment,
            check=True,
            capture_output=True,
            timeout=60,
        )

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "kdc.out").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0
