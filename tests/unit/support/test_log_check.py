"""A test fails on unannounced warnings and errors of Stoker, and on no other logs."""

import logging

import pytest

from tests.support.log_check import unexpected


def record(name: str, level: int, message: str) -> logging.LogRecord:
    return logging.LogRecord(name, level, "file.py", 1, message, None, None)


@pytest.mark.parametrize("name", ["stoker.keeper", "stoker_operator.loop", "asyncio"])
@pytest.mark.parametrize("level", [logging.WARNING, logging.ERROR, logging.CRITICAL])
def test_a_warning_or_worse_of_ours_is_unexpected(name: str, level: int) -> None:
    assert unexpected([record(name, level, "the disk is gone")], []) == [
        f"{logging.getLevelName(level)} {name}: the disk is gone"
    ]


@pytest.mark.parametrize(("name", "level"), [("stoker.keeper", logging.INFO), ("botocore", logging.ERROR)])
def test_what_is_milder_or_of_others_passes(name: str, level: int) -> None:
    assert unexpected([record(name, level, "the disk is gone")], []) == []


def test_what_is_announced_passes() -> None:
    assert unexpected([record("stoker.keeper", logging.ERROR, "the disk is gone")], [r"disk is \w+"]) == []


def test_one_announcement_does_not_cover_another_message() -> None:
    records = [record("stoker.keeper", logging.ERROR, message) for message in ("one", "two")]
    assert unexpected(records, ["one"]) == ["ERROR stoker.keeper: two"]
