"""Quotas: which are taken, and how they show; credentials of users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from interop.differential.brokers import Broker, Differs, Pair
from interop.support.waiting import wait_until
from kafkapy.handlers.describe_client_quotas import MatchType
from kafkapy.protocol.messages import alter_client_quotas as altering
from kafkapy.protocol.messages import describe_client_quotas as describing
from kafkapy.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

pytestmark = pytest.mark.jvm

CONSUMER, PRODUCER, PERCENTAGE = "consumer_byte_rate", "producer_byte_rate", "request_percentage"
MUTATIONS, CONNECTIONS = "controller_mutation_rate", "connection_creation_rate"
USER, CLIENT, IP = "user", "client-id", "ip"
Entity = Sequence[tuple[str, str | None]]
Quotas = Sequence[tuple[str, float | None]]

REFUSED_OR_NOT: tuple[tuple[Entity, Quotas], ...] = (
    *(
        ([(USER, "a")], [(name, value)])
        for name in (CONSUMER, PRODUCER, PERCENTAGE, MUTATIONS, CONNECTIONS, "no_such_rate", "")
        for value in (100.0, 0.0, -1.0, 1.5, 1.0000001, 1e300, None)
    ),
    *(
        ([(IP, "192.0.2.1")], [(name, value)])
        for name in (CONNECTIONS, CONSUMER)
        for value in (5.0, 5.5, 3e9, 0.0)
    ),
    ([(IP, None)], [(CONNECTIONS, 600.0)]),
    ([(IP, "::1")], [(CONNECTIONS, 600.0)]),
    ([(IP, "localhost")], [(CONNECTIONS, 600.0)]),
    ([(IP, "no.such.host.invalid")], [(CONNECTIONS, 600.0)]),
    ([(IP, "")], [(CONNECTIONS, 600.0)]),
    ([(USER, "a"), (IP, "192.0.2.1")], [(CONNECTIONS, 5.0)]),
    ([], [(CONSUMER, 1.0)]),
    ([("host", "a")], [(CONSUMER, 1.0)]),
    ([("", "a")], [(CONSUMER, 1.0)]),
    ([(USER, "")], [(CONSUMER, 1.0)]),
    ([(CLIENT, "<default>")], [(CONSUMER, 1.0)]),
    ([(USER, "a"), (CLIENT, None)], [(CONSUMER, 1.0)]),
    ([(USER, "a")], [(CONSUMER, 1.0), (CONSUMER, 2.0)]),
    ([(USER, "a")], [(CONSUMER, float("nan"))]),
    ([(USER, "a")], [(PERCENTAGE, float("inf"))]),
    ([(USER, "a")], []),
)


def alteration(*entries: tuple[Entity, Quotas], validate_only: bool = True) -> Any:
    return altering.AlterClientQuotasRequest(
        entries=[
            altering.AlterClientQuotasRequestEntryData(
                entity=[altering.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[
                    altering.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in quotas
                ],
            )
            for entity, quotas in entries
        ],
        validate_only=validate_only,
    )


def description(*components: tuple[str, int, str | None], strict: bool = False) -> Any:
    return describing.DescribeClientQuotasRequest(
        components=[
            describing.ComponentData(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ],
        strict=strict,
    )


def test_which_quotas_can_be_given(pair: Pair) -> None:
    def quotas(broker: Broker) -> None:
        for number, (entity, changes) in enumerate(REFUSED_OR_NOT):
            (answer,) = broker.main.quietly(alteration((entity, changes)), 1).entries
            label = f"{number} {dict(entity)} {changes}".translate(str.maketrans("[]", "()"))
            broker.note(label, {"error_code": answer.error_code, "words": answer.error_message})
        for version in broker.versions(altering.AlterClientQuotasRequest):
            both = [([(USER, name)], [(CONSUMER, value)]) for name, value in (("a", 1.0), ("b", -1.0))]
            answer = broker.main.quietly(alteration(*both), version)
            codes = {each.entity[0].entity_name: each.error_code for each in answer.entries}
            broker.note(f"one of two in v{version}", dict(codes))

    no_names = "no client has this broker ask a name server"
    words = "the same refusal in other words"
    pair.compare(
        quotas,
        Differs("* {'ip': 'localhost'} *", "*", no_names),
        Differs("* {'ip': 'no.such.host.invalid'} *", "words", no_names),
        Differs("* {'user': 'a', 'ip': '192.0.2.1'} *", "words", words),
        Differs("* (('consumer_byte_rate', 1.0), ('consumer_byte_rate', 2.0))", "words", words),
        Differs("* (('consumer_byte_rate', nan))", "*", "NaN is not a quota"),
        Differs("* (('request_percentage', inf))", "*", "without a limit is without a quota"),
    )


def test_quotas_are_kept_and_shown(pair: Pair) -> None:
    entities: dict[str, tuple[Entity, Quotas]] = {
        "user": ([(USER, "a")], [(CONSUMER, 1e9), (PERCENTAGE, 12.5)]),
        "odd user": ([(USER, "ü/ b*~%")], [(PRODUCER, 2e9)]),
        "default user": ([(USER, None)], [(CONSUMER, 3e9)]),
        "client of user": ([(USER, "a"), (CLIENT, "c")], [(CONSUMER, 4e9)]),
        "any client of user": ([(USER, "a"), (CLIENT, None)], [(CONSUMER, 5e9)]),
        "client of any user": ([(CLIENT, "c"), (USER, None)], [(CONSUMER, 6e9)]),
        "any client of any user": ([(CLIENT, None), (USER, None)], [(CONSUMER, 7e9)]),
        "client": ([(CLIENT, "c")], [(PRODUCER, 8e9), (MUTATIONS, 1000.0)]),
        "default client": ([(CLIENT, None)], [(PRODUCER, 9e9)]),
        "address": ([(IP, "192.0.2.1")], [(CONNECTIONS, 500.0)]),
        "any address": ([(IP, None)], [(CONNECTIONS, 100_000.0)]),
    }
    filters: tuple[tuple[tuple[str, int, str | None], ...], ...] = (
        (),
        ((USER, MatchType.ANY, None),),
        ((USER, MatchType.EXACT, "a"),),
        ((USER, MatchType.EXACT, "ü/ b*~%"),),
        ((USER, MatchType.EXACT, "nobody"),),
        ((USER, MatchType.EXACT, ""),),
        ((USER, MatchType.DEFAULT, None),),
        ((USER, MatchType.EXACT, "a"), (CLIENT, MatchType.EXACT, "c")),
        ((USER, MatchType.EXACT, "a"), (CLIENT, MatchType.ANY, None)),
        ((USER, MatchType.DEFAULT, None), (CLIENT, MatchType.DEFAULT, None)),
        ((CLIENT, MatchType.ANY, None),),
        ((CLIENT, MatchType.EXACT, "c"),),
        ((IP, MatchType.ANY, None),),
        ((IP, MatchType.DEFAULT, None),),
        ((IP, MatchType.EXACT, "192.0.2.1"),),
        ((IP, MatchType.ANY, None), (USER, MatchType.ANY, None)),
        ((USER, MatchType.ANY, None), (USER, MatchType.EXACT, "a")),
        (("", MatchType.ANY, None),),
        (("host", MatchType.ANY, None),),
        ((USER, 3, None),),
        ((USER, MatchType.EXACT, None),),
        ((USER, MatchType.DEFAULT, "a"),),
        ((USER, MatchType.ANY, "a"),),
    )

    def kept(broker: Broker) -> None:
        def count() -> int:
            return len(broker.main.quietly(description(), 1).entries)

        def note(label: str) -> None:
            for components in filters:
                for strict in (False, True):
                    what = f"{label} {components} strict {strict}"
                    broker.ask(what, description(*components, strict=strict), 1)
            broker.ask(f"{label} v0", description((USER, MatchType.ANY, None)), 0)

        note("none")
        for entity, quotas in entities.values():
            broker.main.quietly(alteration((entity, quotas), validate_only=False), 1)
        wait_until(lambda: count() == len(entities))
        note("all")
        for removed, left in (("user", 11), ("client of user", 10), ("any client of user", 9)):
            entity, quotas = entities[removed]
            # Of the user only one of two is removed first.
            gone = [(name, None) for name, _ in quotas][: 1 if removed == "user" else None]
            broker.main.quietly(alteration((entity, gone), validate_only=False), 1)
            wait_until(lambda left=left: count() == left)  # type: ignore[misc]
        wait_until(lambda: len(_values(broker, "a")) == 1)
        note("some")
        for entity, quotas in entities.values():
            gone = [(name, None) for name, _ in quotas]
            broker.main.quietly(alteration((entity, gone), validate_only=False), 1)
        wait_until(lambda: count() == 0)
        note("removed")

    pair.compare(kept)


def _values(broker: Broker, user: str) -> list[Any]:
    (entry,) = broker.main.quietly(description((USER, MatchType.EXACT, user), strict=True), 1).entries
    return list(entry.values)


def test_credentials_of_users(pair: Pair) -> None:
    def credentials(broker: Broker) -> None:
        for users in (None, [], ["a"], ["b", "a"], ["a", "a"], [""]):
            names = None if users is None else [UserName(name=user) for user in users]
            answer = broker.main.quietly(DescribeUserScramCredentialsRequest(users=names), 0)
            results = [(each.user, each.error_code, each.error_message) for each in answer.results]
            fields = {
                "error_code": answer.error_code,
                "words": answer.error_message,
                "users": sorted(results),
            }
            broker.note(f"{users}", fields)

    pair.compare(credentials)
