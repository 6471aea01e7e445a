"""A plugin of pytest for aiokafka's own tests: stands for the package `docker`.

They start an image of theirs, with Apache Kafka and a key distribution centre, and run commands in it. With
the plugin a container is a broker that the command `--serve` starts from a server.properties; what is run in
it, kafkapy's commands do. It is imported before their `conftest.py` imports `docker`, and imports nothing of
this checkout's package `tests`, whose name theirs has.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import pytest
from click.testing import CliRunner

from kafkapy.cli import main

_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_JAAS: Final = Path("docker/scripts")
"""Where the files are that their image has in /etc/kafka, from the folder that the tests run in."""
_LOGIN: Final = re.compile(r"(\S+LoginModule) (required.*?;)", re.DOTALL)
_SCRAM: Final = re.compile(r"(SCRAM-SHA-\d+)=\[password=(.*?)\]")
_PASSWORD: Final = "OWN_TESTS_PASSWORD"
_SETTINGS: Final = {
    # Those of their image's start-kafka.sh; kafkapy reads PEM files in place of JKS.
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
    "ssl.client.auth": "required",
    "ssl.endpoint.identification.algorithm": "",
    "sasl.kerberos.service.name": "kafka",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "true",
    # Those of Apache Kafka's config/server.properties, which the image has.
    "node.id": "0",
    "group.initial.rebalance.delay.ms": "0",
    # Their kafka-acls and kafka-configs write to ZooKeeper. Here such commands are requests without a login.
    "super.users": "User:admin;User:ANONYMOUS",
}
_LISTENERS: Final = {
    "PLAINTEXT": "ADVERTISED_PORT",
    "SSL": "ADVERTISED_SSL_PORT",
    "SASL_PLAINTEXT": "ADVERTISED_SASL_PLAINTEXT_PORT",
    "SASL_SSL": "ADVERTISED_SASL_SSL_PORT",
}
"""The variable with the port of each listener."""


class Container:
    """A folder for the certificates, and a broker if it runs what its image is for."""

    def __init__(self, volumes: Mapping[str, str]) -> None:
        self._paths = {inside: Path(outside) for outside, inside in volumes.items()}
        self._folder = tempfile.TemporaryDirectory(prefix="own-tests-")
        self._address = ""
        self._process: subprocess.Popen[bytes] | None = None

    def serve(self, environment: Mapping[str, Any], command: Sequence[str], keytab: str | None) -> None:
        """Start a broker that has the listeners of the environment; wait for nothing."""
        folder = Path(self._folder.name)
        address = environment["ADVERTISED_HOST"]
        self._address = f"{address}:{environment['ADVERTISED_PORT']}"
        listeners = ",".join(f"{name}://{address}:{environment[port]}" for name, port in _LISTENERS.items())
        mechanisms = environment["SASL_MECHANISMS"].split(",")
        if keytab is None:
            mechanisms.remove("GSSAPI")
        lines = {
            **_SETTINGS,
            **self._stores(folder),
            **_logins((_JAAS / environment["SASL_JAAS_FILE"]).read_text(), mechanisms, keytab),
            "num.partitions": str(environment["NUM_PARTITIONS"]),
            "sasl.enabled.mechanisms": ",".join(mechanisms),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "log.dirs": str(folder / "data"),
        }
        file = folder / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        with (folder / "output").open("wb") as output:
            self._process = subprocess.Popen(
                [*command, str(file)], cwd=_CHECKOUT, stdout=output, stderr=subprocess.STDOUT
            )

    def _stores(self, folder: Path) -> dict[str, str]:
        """The settings of the certificates that their script has made."""
        certificates = self._paths["/ssl_cert"]
        keystore = folder / "server.pem"
        keystore.write_text(
            (certificates / "server.key").read_text() + (certificates / "server.crt").read_text()
        )
        return {
            "ssl.keystore.location": str(keystore),
            "ssl.truststore.location": str(certificates / "ca.crt"),
        }

    def exec_run(self, command: str | list[str], user: str = "") -> tuple[int, bytes]:
        """The exit status and the output of a command in the container."""
        program, *arguments = shlex.split(command) if isinstance(command, str) else command
        match program.rpartition("/")[2]:
            case "bash":
                run = [program, *(str(self._paths.get(each, each)) for each in arguments)]
                done = subprocess.run(
                    run,
                    cwd=self._paths["/ssl_cert"],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
                return done.returncode, done.stdout
            case "supervisorctl":
                return 0, Path(self._folder.name, "output").read_bytes()
            case "kafka-acls.sh":
                return self._kafkapy("acls", *_as_acls(arguments))
            case "kafka-configs.sh":
                return self._set_user(arguments)
        raise NotImplementedError(command)

    def _set_user(self, arguments: list[str]) -> tuple[int, bytes]:
        options = dict(pairwise(arguments))
        status, output = 0, b""
        for mechanism, password in _SCRAM.findall(options["--add-config"]):
            name = options["--entity-name"]
            new = "users", "set", name, "--mechanism", mechanism, "--password-env", _PASSWORD
            one, printed = self._kafkapy(*new, password=password)
            status, output = status or one, output + printed
        return status, output

    def _kafkapy(self, *arguments: str, password: str = "") -> tuple[int, bytes]:
        """Run a command of kafkapy in a thread, since this one has an event loop."""
        whole = [*arguments, "--bootstrap-server", self._address]
        with ThreadPoolExecutor(1) as threads:
            done = threads.submit(CliRunner().invoke, main, whole, env={_PASSWORD: password}).result()
        return done.exit_code, done.output_bytes

    def stop(self) -> None:
        """End the broker, and remove what it has written."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
        self._folder.cleanup()


def _logins(jaas: str, mechanisms: Sequence[str], keytab: str | None) -> dict[str, str]:
    """The JAAS lines of each listener and mechanism, from their file of all."""
    modules = {module: f"{module} {' '.join(options.split())}" for module, options in _LOGIN.findall(jaas)}
    names = {"PLAIN": "Plain", "GSSAPI": "Krb5"}
    lines = {}
    for mechanism in mechanisms:
        (line,) = (modules[each] for each in modules if f".{names.get(mechanism, 'Scram')}Login" in each)
        line = line.replace("/server.keytab", keytab or "")
        for listener in ("sasl_plaintext", "sasl_ssl"):
            lines[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = line
    return lines


def _as_acls(arguments: list[str]) -> list[str]:
    """The arguments of `kafkapy acls` for those of kafka-acls.sh."""
    left = arguments.copy()
    left.remove("--force")
    store = left.index("--authorizer-properties")
    del left[store : store + 2]
    (action,) = {"--add", "--remove", "--list"}.intersection(left)
    left.remove(action)
    return [action.removeprefix("--"), *left, *(["--yes"] if action == "--remove" else [])]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--serve", help="the command that starts a broker, less its server.properties")
    parser.addoption("--keytab", help="the key of the broker; without one, it has no GSSAPI")


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    def run(volumes: Mapping[str, Mapping[str, str]], environment: Any = None, **_: Any) -> Container:
        container = Container({str(outside): inside["bind"] for outside, inside in volumes.items()})
        if environment is not None:
            options = early_config.option
            container.serve(environment, shlex.split(options.serve), options.keytab)
        return container

    client = SimpleNamespace(containers=SimpleNamespace(run=run), close=lambda: None)
    stand_in = ModuleType("docker")
    stand_in.from_env = lambda: client  # type: ignore[attr-defined]
    stand_in.models = SimpleNamespace(  # type: ignore[attr-defined]
        containers=SimpleNamespace(Container=Container)
    )
    sys.modules["docker"] = stand_in
