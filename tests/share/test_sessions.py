"""Share sessions: how many there may be, their epochs, and their ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.share.sessions import FIRST_EPOCH, MAX_EPOCH, ShareSession, ShareSessions
from kafkapy.share.state_records import ShareKey

KEY, OTHER_KEY = ShareKey("g", bytes(16), 0), ShareKey("g", bytes(16), 1)


class Connection:
    """A connection that closes when the test says so."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], object]] = []

        self._closed = False

    def when_closed(self, call: Callable[[], object]) -> None:
        if self._closed:
            call()
        self._calls.append(call)

    def close(self) -> None:
        self._closed = True
        for call in self._calls:
            call()


class Sessions(ShareSessions):
    """At most two sessions, unless the test says otherwise."""

    def __init__(self) -> None:
        self.most = 2
        self.ended: list[str] = []
        self.connection = Connection()
        super().__init__(lambda: self.most, lambda session: self.ended.append(session.member_id))

    def open(self, member_id: str, group_id: str = "g") -> ShareSession:
        return self.begin(group_id, member_id, [KEY], self.connection)

    def error_of_next(self, member_id: str, epoch: int) -> ErrorCode:
        try:
            self.next("g", member_id, epoch)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


def test_there_are_no_more_sessions_than_allowed(sessions: Sessions) -> None:
    one = sessions.open("one")
    sessions.open("two", group_id="other")
    with pytest.raises(KafkaError, match="SHARE_SESSION_LIMIT_REACHED"):
        sessions.open("three")
    assert len(sessions) == 2
    assert not sessions.ended, "those that are there stay"
    sessions.end(one)
    sessions.open("three")


def test_the_limit_may_change(sessions: Sessions) -> None:
    sessions.most = 0
    with pytest.raises(KafkaError, match="SHARE_SESSION_LIMIT_REACHED"):
        sessions.open("one")
    sessions.most = 1
    sessions.open("one")


def test_a_member_may_begin_anew_when_there_are_as_many_as_allowed(sessions: Sessions) -> None:
    before = sessions.open("one")
    sessions.open("two")
    after = sessions.open("one")
    assert len(sessions) == 2
    assert sessions.is_open(after)
    assert not sessions.is_open(before)
    assert not sessions.ended, "the member still has its records"


def test_each_request_has_the_next_epoch(sessions: Sessions) -> None:
    session = sessions.open("one")
    assert sessions.error_of_next("one", 1) is ErrorCode.NONE
    assert sessions.error_of_next("one", 1) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.error_of_next("one", 3) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.error_of_next("one", 2) is ErrorCode.NONE
    assert sessions.error_of_next("two", 1) is ErrorCode.SHARE_SESSION_NOT_FOUND
    session.epoch = MAX_EPOCH
    assert sessions.error_of_next("one", MAX_EPOCH) is ErrorCode.NONE
    assert session.epoch == FIRST_EPOCH + 1, "0 would begin a session"


def test_a_request_says_what_changes(sessions: Sessions) -> None:
    session = sessions.open("one")
    sessions.next("g", "one", 1, keys=[OTHER_KEY, KEY])
    assert list(session.keys) == [KEY, OTHER_KEY]
    sessions.next("g", "one", 2, forgotten=[KEY])
    assert list(session.keys) == [OTHER_KEY]


def test_sessions_end_with_their_connection(sessions: Sessions) -> None:
    sessions.open("one")
    sessions.end(sessions.open("two"))
    staying = sessions.begin("g", "stays", [KEY], Connection())
    sessions.connection.close()
    assert sessions.ended == ["two", "one"], "each once"
    assert sessions.is_open(staying)


def test_a_session_whose_connection_has_closed_ends_at_once(sessions: Sessions) -> None:
    sessions.connection.close()
    session = sessions.open("one")
    assert sessions.ended == ["one"]
    assert not sessions.is_open(session)
