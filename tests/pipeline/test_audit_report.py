"""What an audit reports, as text and as JSON."""

from __future__ import annotations

import dataclasses
import json

from kafkapy.pipeline.audit.report import AuditReport, Bounds, Example, Finding

BOUNDS = (Bounds(partition=0, start=0, committed=2_000, planned=2_000, log_start=5, end=2_010),)


def report(*findings: Finding, **notes: int) -> AuditReport:
    return AuditReport(
        pipeline="orders",
        table="delta:/lake/orders",
        topic="orders",
        mode="append",
        batch=7,
        bounds=BOUNDS,
        notes=notes,
        findings=findings,
    )


def test_a_report_without_findings_is_clean() -> None:
    clean = report(matching=1_995, expired=5)
    assert clean.ok
    text = str(clean)
    assert "orders -> delta:/lake/orders (append), up to batch 7" in text
    assert "Clean" in text
    assert "1,995" in text


def test_consecutive_offsets_are_one_line() -> None:
    found = Finding("missing", 1_001, (Example(0, 1_000, 1_999, "orders"), Example(0, 7, 7, "orders")))
    lines = str(report(found)).splitlines()
    assert "  orders-0: 1000..1999" in lines
    assert "  orders-0: 7" in lines
    assert lines[-1] == "Not clean: 1,001 missing."


def test_a_report_says_when_it_shows_only_the_first_examples() -> None:
    found = Finding("duplicated", 30, (Example(0, 1, 10, "orders"),))
    assert "  … only the first 1 are shown" in str(report(found)).splitlines()


def test_an_upsert_finding_names_the_key_and_the_record_that_should_have_decided() -> None:
    example = Example(0, 12, 12, "orders", key="'k7'", expected=40)
    assert str(example) == "orders-0: 12 key 'k7', the last is 40"


def test_a_row_without_a_place_is_shown_as_such() -> None:
    assert str(Example(None, None, None, "?")) == "?-?: ?"


def test_json_has_everything_that_the_text_has() -> None:
    found = Finding("missing", 10, (Example(0, 1_000, 1_009, "orders"),))
    value = json.loads(report(found, matching=1_985).to_json())
    assert not value["ok"]
    assert value["batch"] == 7
    assert value["partitions"] == [
        {
            "partition": 0,
            "start": 0,
            "committed": 2_000,
            "planned": 2_000,
            "log_start": 5,
            "end": 2_010,
            "skipped": [],
            "starting": 0,
            "ending": None,
        }
    ]
    assert value["notes"] == {"matching": 1_985}
    (finding,) = value["findings"]
    assert (finding["kind"], finding["count"]) == ("missing", 10)
    assert (finding["examples"][0]["first"], finding["examples"][0]["last"]) == (1_000, 1_009)


def test_counts_are_of_findings_and_notes_alike() -> None:
    found = report(Finding("missing", 10, ()), matching=5)
    assert (found.count("missing"), found.count("matching"), found.count("stale")) == (10, 5, 0)


def test_offsets_that_are_not_compared_are_said_beside_clean() -> None:
    assert str(report(matching=10)).endswith("\nClean: table and topic agree.")
    text = str(report(matching=10, not_read=1_200))
    assert text.endswith("\nClean: table and topic agree, but for 1,200 offsets that are not compared.")
    assert "before the pipeline's start, or skipped by a reset" in text


def test_offsets_that_expired_unread_are_said_first_and_such_a_table_is_not_called_clean() -> None:
    bounds = (
        Bounds(0, start=0, committed=100, planned=100, log_start=80, end=100, skipped=((40, 90),)),
        Bounds(1, start=0, committed=10, planned=10, log_start=5, end=30),
        Bounds(2, start=0, committed=10, planned=10, log_start=14, end=30),
    )
    found = dataclasses.replace(report(lost=44, matching=20, not_read=10), bounds=bounds)
    assert found.ok
    lines = str(found).splitlines()
    assert lines[:4] == [
        "44 offsets expired before the pipeline read them, and the table does not have them:",
        "  orders-0: 40..79",
        "  orders-2: 10..13",
        "",
    ]
    assert lines[-1] == (
        "Incomplete: 44 offsets expired unread. Apart from these, table and topic agree, but for 10 offsets "
        "that are not compared."
    )
    assert "lean" not in str(found)


def test_a_finding_beside_offsets_that_expired_unread_is_no_excuse() -> None:
    text = str(report(Finding("missing", 3, ()), lost=44))
    assert text.endswith("\nNot clean: 3 missing, and 44 offsets expired unread.")


def test_each_offset_was_compared_or_has_expired_or_was_not_read() -> None:
    def counts(start: int, log_start: int, *skipped: tuple[int, int]) -> tuple[int, int, int]:
        bounds = Bounds(0, start, 100, 120, log_start, 200, skipped)
        return bounds.compared, bounds.expired, bounds.not_read

    assert counts(0, 0) == (100, 0, 0)
    assert counts(10, 0) == (90, 0, 10)
    assert counts(10, 30) == (70, 20, 0)
    assert counts(10, 0, (20, 25), (90, 100)) == (75, 0, 25)
    assert counts(10, 22, (20, 25), (90, 100)) == (65, 10, 13)
    assert counts(10, 110, (20, 25)) == (0, 85, 0)


def test_what_expired_unread_was_skipped_since_or_is_next_to_be_read() -> None:
    def lost(log_start: int, *skipped: tuple[int, int]) -> tuple[tuple[int, int], ...]:
        return Bounds(0, 10, 100, 120, log_start, 200, skipped).lost

    assert lost(0, (20, 25)) == ()
    assert lost(20, (20, 25)) == ()
    assert lost(22, (20, 25), (90, 100)) == ((20, 22),)
    assert lost(130, (20, 25), (90, 100)) == ((20, 25), (90, 100), (100, 130))


def test_comparing_begins_where_both_the_pipeline_and_the_topic_begin() -> None:
    assert BOUNDS[0].first == 5


def test_files_that_readers_misread_are_named_and_no_finding() -> None:
    files = tuple(f"/lake/orders/part-{number}.parquet" for number in range(12))
    old = dataclasses.replace(report(matching=10), files_to_rewrite=files)
    text = str(old)
    assert old.ok
    assert "12 files have timestamps of the type INT96" in text
    assert f"  {files[9]}\n  … only the first 10 are shown\n" in text
    assert text.endswith("\nClean: table and topic agree.")
    assert json.loads(old.to_json())["files_to_rewrite"] == list(files)


def test_a_window_counts_only_what_lies_within_it() -> None:
    def counts(starting: int, ending: int | None) -> tuple[int, int, int]:
        bounds = Bounds(0, 10, 100, 120, 30, 200, ((40, 60),), starting, ending)
        return bounds.compared, bounds.expired, bounds.not_read

    assert counts(0, None) == (50, 20, 20)
    assert counts(50, None) == (40, 0, 10)
    assert counts(0, 45) == (10, 20, 5)
    assert counts(20, 25) == (0, 5, 0)
    assert counts(150, None) == (0, 0, 0)


def test_a_report_of_a_window_says_so_and_what_it_has_not_seen() -> None:
    bounds = (dataclasses.replace(BOUNDS[0], starting=500, ending=700),)
    text = str(dataclasses.replace(report(matching=200), bounds=bounds, limits=("Nothing else was read.",)))
    assert text.endswith("\nNothing else was read.\n\nClean: table and topic agree in the window.")
    assert "500..700" in text
