"""The quotas that are set with Kafka's tools, for users, client ids, both and defaults.

The most specific quota counts:

    1. user and client id            5. all users and all client ids
    2. user, all client ids          6. all users
    3. user                          7. client id
    4. all users and client id       8. all client ids

A quota of a user or of all users without a client id is shared by the clients of each user. One with a client
id is for each client id alone, as is one of client ids, which users share. A client without a client id has
no quota by it: where level 1, 2, 4 or 5 is found for it, the quotas of users count, and 7 and 8 never do.

Source: ClientQuotaManager.DefaultQuotaCallback.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkapy.metadata.quotas import CLIENT_ID, USER
from kafkapy.quotas import ClientQuotaCallback, ClientQuotaType

_Names = tuple[object, object]
"""A user and a client id: a name, _DEFAULT, or None without one."""

_DEFAULT: Final = object()
"""Stands for all users or client ids: no name equals it."""


class DefaultQuotaCallback(ClientQuotaCallback):
    """Kafka's own precedence."""

    def __init__(self) -> None:
        self._quotas: dict[ClientQuotaType, dict[_Names, float]] = {each: {} for each in ClientQuotaType}

    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: str, client_id: str
    ) -> Mapping[str, str]:
        """The user, the client id, or both, as the most specific quota has them."""
        user, quotas = principal.partition(":")[2], self._quotas[quota_type]
        if (user, client_id) in quotas or (user, _DEFAULT) in quotas:
            pass
        elif (user, None) in quotas:
            client_id = ""
        elif (_DEFAULT, client_id) in quotas or (_DEFAULT, _DEFAULT) in quotas:
            pass
        elif (_DEFAULT, None) in quotas:
            client_id = ""
        else:
            user = ""
        return {USER: user, CLIENT_ID: client_id}

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """The quota of the most specific level that fits the tags."""
        user, client_id = metric_tags[USER], metric_tags[CLIENT_ID]
        levels: tuple[_Names, ...] = ()
        if user and client_id:
            levels = (user, client_id), (user, _DEFAULT), (_DEFAULT, client_id), (_DEFAULT, _DEFAULT)
        elif user:
            levels = (user, None), (_DEFAULT, None)
        elif client_id:
            levels = (None, client_id), (None, _DEFAULT)
        quotas = self._quotas[quota_type]
        return next((quotas[level] for level in levels if level in quotas), None)

    def update_quota(
        self, quota_type: ClientQuotaType, entity: Mapping[str, str | None], new_value: float
    ) -> None:
        """Set a quota."""
        self._quotas[quota_type][_names(entity)] = new_value

    def remove_quota(self, quota_type: ClientQuotaType, entity: Mapping[str, str | None]) -> None:
        """Remove a quota."""
        self._quotas[quota_type].pop(_names(entity), None)


def _names(entity: Mapping[str, str | None]) -> _Names:
    return _name(entity, USER), _name(entity, CLIENT_ID)


def _name(entity: Mapping[str, str | None], kind: str) -> object:
    if kind not in entity:
        return None
    return _DEFAULT if entity[kind] is None else entity[kind]
