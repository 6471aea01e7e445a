"""The report of a test that fails shows the test and the records, not the broker."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\nasyncio_mode = auto\n"


def test_records_that_differ_are_shown_as_tables(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        """
        def test_one(kafka_broker):
            kafka_broker.produce("orders", key="17", value="two apples", timestamp=0)
            assert kafka_broker.records("orders") == []
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(
        [
            "E *assert the records are not the same",
            "E *partition  offset  time *value *",
            "E *0          0       1970-01-01 00:00:00.000  17   two apples",
            "E *but",
        ]
    )


def test_a_record_that_differs_or_is_missing_is_shown_as_a_table(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        """
        def test_one(kafka_broker):
            one = kafka_broker.produce("orders", key="17", value="two apples", timestamp=0)
            other = kafka_broker.produce("orders", key="18", value="bread", timestamp=0)
            assert one == other

        def test_two(kafka_broker):
            one = kafka_broker.produce("orders", key="17", value="two apples", timestamp=0)
            assert one._replace(key=b"18") in kafka_broker.records("orders")

        def test_three(kafka_broker):
            one = kafka_broker.produce("orders", key="17", value="two apples", timestamp=0)
            assert one not in kafka_broker.records("orders")
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=3)
    heading = "E *partition  offset  time *value *"
    one = "E *0          0       1970-01-01 00:00:00.000  17   two apples"
    result.stdout.fnmatch_lines(
        [
            *("E *assert the records are not the same", heading, one, "E *but"),
            *(heading, "E *0          1       1970-01-01 00:00:00.000  18   bread"),
            *("E *assert the record is not among the others", heading),
            *("E *0          0       1970-01-01 00:00:00.000  18   two apples", "E *but", heading, one),
            *("E *assert the record is among the others", heading, one, "E *but", heading, one),
        ]
    )


def test_a_wait_in_vain_points_at_the_test(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(
        """
        def test_one(kafka_broker):
            kafka_broker.topic("orders").records(1, within=0)

        async def test_two(async_kafka_broker):
            await async_kafka_broker.group("billing").stable(within=0)
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            '>*kafka_broker.topic("orders").records(1, within=0)',
            "E *NotSeenError: waited for 0 s for 1 records in orders; there is no such topic",
            "test_*.py:2: NotSeenError",
            '>*await async_kafka_broker.group("billing").stable(within=0)',
            "test_*.py:5: NotSeenError",
        ]
    )
