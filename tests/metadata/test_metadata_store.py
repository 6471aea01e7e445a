"""The contract of the metadata tree: every implementation must pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.store import (
    BadVersionError,
    Check,
    Create,
    Delete,
    EphemeralParentError,
    EventType,
    MetadataStore,
    MetadataStoreError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SetData,
    WatchEvent,
)
from tests.metadata.intercepted_store import InterceptedStore

OpenSession = Callable[[], Awaitable[MetadataStore]]


@pytest.fixture
def connect_store(tmp_path: Path) -> OpenSession:
    """Opens a session; each implementation has its own."""
    return lambda: EmbeddedStore.open(tmp_path / "metadata.db", sync=False)


@pytest.fixture
async def open_session(connect_store: OpenSession) -> AsyncIterator[OpenSession]:
    """Opens sessions with one tree, which are closed after the test."""
    sessions: list[MetadataStore] = []

    async def open_one() -> MetadataStore:
        session = await connect_store()
        sessions.append(session)
        return session

    yield open_one
    for session in sessions:
        await session.close()


@pytest.fixture
async def store(open_session: OpenSession) -> InterceptedStore:
    return InterceptedStore(await open_session())


async def test_a_created_node_is_read_back_with_version_zero(store: MetadataStore) -> None:
    assert await store.create("/brokers", b"data") == "/brokers"
    node = await store.get("/brokers")
    assert node.data == b"data"
    assert node.stat.version == 0
    assert node.stat.owner == 0
    assert await store.exists("/brokers") == node.stat


async def test_a_missing_node_is_an_error_to_read_and_none_to_look_for(store: MetadataStore) -> None:
    with pytest.raises(NoNodeError):
        await store.get("/absent")
    with pytest.raises(NoNodeError):
        await store.children("/absent")
    assert await store.exists("/absent") is None


async def test_a_node_cannot_be_created_twice(store: MetadataStore) -> None:
    await store.create("/a", b"first")
    with pytest.raises(NodeExistsError) as caught:
        await store.create("/a", b"second")
    assert caught.value.path == "/a"
    assert (await store.get("/a")).data == b"first"


async def test_a_node_needs_its_parent(store: MetadataStore) -> None:
    with pytest.raises(NoNodeError) as caught:
        await store.create("/a/b")
    assert caught.value.path == "/a"


async def test_children_are_names_in_order(store: MetadataStore) -> None:
    for path in ("/p", "/p/b", "/p/a", "/p/a/deep", "/pq"):
        await store.create(path)
    assert await store.children("/p") == ["a", "b"]
    assert await store.children("/p/b") == []
    assert await store.children("/") == ["p", "pq"]


async def test_set_counts_versions_and_refuses_a_stale_one(store: MetadataStore) -> None:
    await store.create("/a")
    assert await store.set("/a", b"1") == 1
    assert await store.set("/a", b"2", version=1) == 2
    with pytest.raises(BadVersionError):
        await store.set("/a", b"3", version=1)
    with pytest.raises(NoNodeError):
        await store.set("/b", b"")
    assert (await store.get("/a")).data == b"2"


async def test_delete_refuses_a_stale_version_and_a_node_with_children(store: MetadataStore) -> None:
    await store.create("/a")
    await store.create("/a/b")
    with pytest.raises(NotEmptyError):
        await store.delete("/a")
    with pytest.raises(BadVersionError):
        await store.delete("/a/b", version=7)
    await store.delete("/a/b", version=0)
    await store.delete("/a")
    with pytest.raises(NoNodeError):
        await store.delete("/a")


@pytest.mark.parametrize("path", ["a", "", "/", "/a/", "//a", "/a//b", "/a\0"])
async def test_a_malformed_path_is_refused(store: MetadataStore, path: str) -> None:
    with pytest.raises(ValueError, match="not the path of a node"):
        await store.create(path)


async def test_multi_applies_all_operations_in_order(store: MetadataStore) -> None:
    await store.create("/gone")
    results = await store.multi(
        [Create("/a"), Create("/a/b", b"x"), SetData("/a/b", b"y"), Check("/a/b", 1), Delete("/gone", 0)]
    )
    assert results == ["/a", "/a/b", 1, None, None]
    assert await store.children("/") == ["a"]


async def test_multi_with_one_impossible_operation_changes_nothing(store: MetadataStore) -> None:
    await store.create("/b", b"old")
    with pytest.raises(BadVersionError) as caught:
        await store.multi([Create("/a"), SetData("/b", b"new"), Check("/b", 5)])
    assert caught.value.path == "/b"
    assert await store.children("/") == ["b"]
    assert (await store.get("/b")).data == b"old"


async def test_a_failing_request_leaves_those_committed_with_it_alone(store: MetadataStore) -> None:
    outcomes = await asyncio.gather(
        store.create("/a"),
        store.create("/a"),
        store.create("/b"),
        store.create("/x/y"),
        return_exceptions=True,
    )
    assert outcomes[0] == "/a"
    assert isinstance(outcomes[1], NodeExistsError)
    assert outcomes[2] == "/b"
    assert isinstance(outcomes[3], NoNodeError)
    assert await store.children("/") == ["a", "b"]


async def test_concurrent_compare_and_set_lets_one_win(store: MetadataStore) -> None:
    await store.create("/n", b"")
    outcomes = await asyncio.gather(
        *(store.set("/n", b"%d" % i, version=0) for i in range(20)), return_exceptions=True
    )
    winners = [i for i, outcome in enumerate(outcomes) if outcome == 1]
    assert len(winners) == 1
    assert all(isinstance(outcome, BadVersionError) for outcome in outcomes if outcome != 1)
    assert (await store.get("/n")).data == b"%d" % winners[0]


async def test_sequence_numbers_have_ten_digits_and_are_never_used_again(store: MetadataStore) -> None:
    await store.create("/changes")
    first = await store.create("/changes/config_change_", b"1", sequence=True)
    second = await store.create("/changes/config_change_", b"2", sequence=True)
    await store.delete(second)
    third = await store.create("/changes/config_change_", b"3", sequence=True)
    assert first == "/changes/config_change_0000000000"
    assert first < second < third
    assert await store.children("/changes") == [first.rpartition("/")[2], third.rpartition("/")[2]]


async def test_an_ephemeral_node_goes_with_its_session(open_session: OpenSession) -> None:
    first, second = await open_session(), await open_session()
    await first.create("/ids")
    await first.create("/ids/1", b"broker", ephemeral=True)
    stat = await second.exists("/ids/1")
    assert stat is not None
    assert stat.owner == first.session_id != second.session_id
    await first.close()
    assert await second.children("/ids") == []


async def test_an_ephemeral_node_has_no_children(store: MetadataStore) -> None:
    await store.create("/e", ephemeral=True)
    with pytest.raises(EphemeralParentError):
        await store.create("/e/child")


async def test_after_a_sync_a_session_sees_what_another_one_has_changed(open_session: OpenSession) -> None:
    store, other = await open_session(), await open_session()
    await other.create("/controller_epoch", b"1")
    await store.sync()
    assert (await store.get("/controller_epoch")).data == b"1"


async def test_a_closed_session_refuses_work(open_session: OpenSession) -> None:
    store = await open_session()
    await store.close()
    await store.close()
    with pytest.raises(MetadataStoreError, match="closed"):
        await store.get("/")


async def test_creation_transactions_are_numbered_in_order(store: MetadataStore) -> None:
    await store.create("/a")
    await store.create("/b")
    assert (await store.get("/a")).stat.created_zxid < (await store.get("/b")).stat.created_zxid


async def test_a_subtree_holds_every_node_below_and_no_other(store: MetadataStore) -> None:
    for path in ("/t", "/t/a", "/t/a/x", "/t/a/x/deep", "/t/b", "/t-a", "/t0", "/u"):
        await store.create(path, path.encode())
    tree = await store.subtree("/t")
    assert list(tree) == ["/t/a", "/t/b", "/t/a/x", "/t/a/x/deep"]
    assert tree["/t/a/x"].data == b"/t/a/x"
    assert await store.subtree("/u") == {}
    assert len(await store.subtree("/")) == 8
    assert (await store.subtree("/u", "/t", "/nowhere")).keys() == tree.keys()


async def test_a_subtree_has_parents_before_children(store: MetadataStore) -> None:
    for path in ("/z", "/z/b", "/z/b/a", "/z/a", "/z/a/z", "/y", "/y/c"):
        await store.create(path)
    order = list(await store.subtree("/z", "/y"))
    assert sorted(order) == ["/y/c", "/z/a", "/z/a/z", "/z/b", "/z/b/a"]
    assert order.index("/z/a") < order.index("/z/a/z")
    assert order.index("/z/b") < order.index("/z/b/a")


async def test_many_nodes_are_read_at_once(store: MetadataStore) -> None:
    for path in ("/t", "/t/a", "/t/b"):
        await store.create(path, path.encode())
    await store.set("/t/b", b"new")
    found = await store.nodes(["/t/b", "/t/c", "/t"])
    assert {path: (node.data, node.stat.version) for path, node in found.items()} == {
        "/t/b": (b"new", 1),
        "/t": (b"/t", 0),
    }
    assert await store.nodes([]) == {}


class Heard:
    """Collects watch events."""

    def __init__(self) -> None:
        self.events: list[WatchEvent] = []

    def __call__(self, event: WatchEvent) -> None:
        self.events.append(event)


async def test_a_data_watcher_hears_the_next_change_once(open_session: OpenSession) -> None:
    store, other = await open_session(), await open_session()
    await store.create("/a")
    heard = Heard()
    await store.get("/a", heard)
    await other.set("/a", b"1")
    await other.set("/a", b"2")
    assert (await store.get("/a")).data == b"2"
    assert heard.events == [WatchEvent(EventType.CHANGED, "/a")]


async def test_an_existence_watcher_hears_of_the_creation(store: MetadataStore) -> None:
    heard = Heard()
    assert await store.exists("/controller", heard) is None
    await store.create("/controller")
    await store.exists("/controller")
    assert heard.events == [WatchEvent(EventType.CREATED, "/controller")]


async def test_a_watcher_hears_of_the_deletion(store: MetadataStore) -> None:
    await store.create("/a")
    data, names = Heard(), Heard()
    await store.get("/a", data)
    await store.children("/a", names)
    await store.delete("/a")
    await store.exists("/a")
    assert data.events == names.events == [WatchEvent(EventType.DELETED, "/a")]


async def test_a_child_watcher_hears_of_children_and_not_of_data(store: MetadataStore) -> None:
    await store.create("/ids")
    heard = Heard()
    await store.children("/ids", heard)
    await store.set("/ids", b"data")
    await store.create("/ids/1")
    await store.set("/ids/1", b"data")
    await store.create("/ids/2")
    await store.exists("/ids")
    assert heard.events == [WatchEvent(EventType.CHILDREN, "/ids")]


async def test_a_watcher_does_not_hear_what_was_before_it(store: MetadataStore) -> None:
    heard = Heard()
    await store.create("/a")
    await asyncio.gather(store.set("/a", b"before"), store.get("/a", heard))
    await store.exists("/a")
    assert heard.events == []


async def test_a_failed_request_is_heard_by_nobody(store: MetadataStore) -> None:
    await store.create("/a")
    heard = Heard()
    await store.get("/a", heard)
    with pytest.raises(NoNodeError):
        await store.multi([SetData("/a", b"x"), Delete("/absent")])
    await store.exists("/a")
    assert heard.events == []


async def test_the_end_of_a_session_is_heard_by_the_others(open_session: OpenSession) -> None:
    controller, standby = await open_session(), await open_session()
    await controller.create("/controller", ephemeral=True)
    heard = Heard()
    await standby.exists("/controller", heard)
    await controller.close()
    await standby.exists("/controller")
    assert heard.events == [WatchEvent(EventType.DELETED, "/controller")]


async def test_a_closed_session_hears_nothing(open_session: OpenSession) -> None:
    watching, other = await open_session(), await open_session()
    heard = Heard()
    await watching.exists("/a", heard)
    await watching.close()
    await other.create("/a")
    await other.exists("/a")
    assert heard.events == []


async def test_a_tree_watcher_hears_of_every_change_that_others_make_below_it(
    open_session: OpenSession,
) -> None:
    store, other = await open_session(), await open_session()
    await other.multi([Create("/a"), Create("/a/b"), Create("/ab")])
    heard: list[WatchEvent] = []
    await store.watch("/a", heard.extend)
    await other.multi([SetData("/a/b", b"1"), Create("/a/b/c"), Create("/ab/c"), Delete("/a/b/c")])
    await other.set("/a", b"2")
    await other.delete("/a/b")
    await store.exists("/none")
    assert heard == [
        WatchEvent(EventType.CHANGED, "/a/b"),
        WatchEvent(EventType.CREATED, "/a/b/c"),
        WatchEvent(EventType.DELETED, "/a/b/c"),
        WatchEvent(EventType.CHANGED, "/a"),
        WatchEvent(EventType.DELETED, "/a/b"),
    ]


async def test_a_tree_watcher_hears_of_a_node_that_was_not_there(open_session: OpenSession) -> None:
    store, other = await open_session(), await open_session()
    heard: list[WatchEvent] = []
    await store.watch("/controller", heard.extend)
    await other.create("/controller", ephemeral=True)
    await other.close()
    await store.exists("/none")
    assert heard == [
        WatchEvent(EventType.CREATED, "/controller"),
        WatchEvent(EventType.DELETED, "/controller"),
    ]


async def test_a_tree_watcher_hears_nothing_of_what_failed_nor_after_its_session(
    open_session: OpenSession,
) -> None:
    store, other, third = await open_session(), await open_session(), await open_session()
    heard: list[WatchEvent] = []
    await store.watch("/", heard.extend)
    with pytest.raises(NoNodeError):
        await other.multi([Create("/a"), Create("/b/c")])
    await store.exists("/none")
    await store.close()
    await other.create("/a")
    await third.exists("/none")
    assert heard == []
