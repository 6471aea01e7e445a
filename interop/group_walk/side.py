"""A broker in a walk: one connection per request, and answers that can be compared."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.message import TopMessage
from tests.servers.probe import parse_address


class Shown(NamedTuple):
    """An answer that names members as the walk does.

    `rest` is only compared.
    """

    kind: str
    error: int
    member: str = ""
    generation: int = -1
    leader: str = ""
    rest: object = None


@dataclass(eq=False)
class Asked:
    """A request that waits for its answer."""

    number: int
    key: int
    version: int
    socket: socket.socket

    def fileno(self) -> int:
        return self.socket.fileno()

    def receive(self) -> Any:
        (size,) = struct.unpack(">i", self._exactly(4))
        _, response = decode_response(self.key, self.version, self._exactly(size))
        return response

    def _exactly(self, nbytes: int) -> bytes:
        data = b""
        while len(data) < nbytes:
            more = self.socket.recv(nbytes - len(data))
            if not more:
                raise ConnectionError(f"step {self.number}: the broker closed the connection")
            data += more
        return data


class Side:
    """One of the two brokers."""

    def __init__(self, bootstrap_servers: str, group: str) -> None:
        self._address = parse_address(bootstrap_servers)
        self.group = group
        self.asked: list[Asked] = []
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}

    def real(self, name: str) -> str:
        """Return the id that this broker gave to the member m0, m1 ...; other text is unchanged."""
        return self._ids.get(name, name)

    def send(self, number: int, request: TopMessage, version: int) -> None:
        assert request.KEY is not None
        connection = socket.create_connection(self._address, timeout=10)
        connection.sendall(encode_request(request, version, number, "walker"))
        self.asked.append(Asked(number, request.KEY, version, connection))

    def collect(self, seconds: float) -> dict[int, Shown]:
        """The answers that come within `seconds`, by step."""
        responses = {}
        deadline = time.monotonic() + seconds
        while self.asked and (remaining := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select(self.asked, [], [], remaining)
            for asked in ready:
                self.asked.remove(asked)
                responses[asked.number] = asked.receive()
                asked.socket.close()
        return {number: self._show(responses[number]) for number in sorted(responses)}

    def close(self) -> None:
        for asked in self.asked:
            asked.socket.close()

    def _name(self, member_id: str) -> str:
        if not member_id:
            return ""
        if member_id not in self._names:
            name = f"m{len(self._names)}"
            self._names[member_id], self._ids[name] = name, member_id
        return self._names[member_id]

    def _show(self, response: Any) -> Shown:
        """The fields of a response, in an order that both brokers have."""
        kind = type(response).__name__.removesuffix("Response")
        if kind == "JoinGroup":
            member = self._name(response.member_id)
            return Shown(
                kind,
                response.error_code,
                member,
                response.generation_id,
                self._name(response.leader),
                (
                    response.protocol_type,
                    response.protocol_name,
                    response.skip_assignment,
                    self._members(
                        (each.group_instance_id, each.member_id, each.metadata) for each in response.members
                    ),
                ),
            )
        if kind == "LeaveGroup":
            members = [(self._name(each.member_id), each.error_code) for each in response.members]
            return Shown(kind, response.error_code, rest=members)
        if kind == "DescribeGroups":
            [group] = response.groups
            described = self._members(
                (each.group_instance_id, each.member_id, each.member_metadata, each.member_assignment)
                for each in group.members
            )
            rest = (group.group_state, group.protocol_type, group.protocol_data, described)
            return Shown(kind, group.error_code, rest=rest)
        if kind == "OffsetFetch":
            [fetched] = response.groups
            offsets = sorted(
                (topic.name, each.partition_index, each.committed_offset, each.error_code)
                for topic in fetched.topics
                for each in topic.partitions
            )
            return Shown(kind, fetched.error_code, rest=offsets)
        if kind == "DeleteGroups":
            [deleted] = response.results
            return Shown(kind, deleted.error_code)
        return Shown(kind, 0, rest=repr(response))

    def _members(self, members: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return the members with their names in the walk.

        New ids are named in the order of the rest. Each member is (group.instance.id, member id, the rest).
        """
        found = sorted(((instance or "", *rest, member_id) for instance, member_id, *rest in members))
        return sorted((self._name(member_id), *rest) for *rest, member_id in found)
