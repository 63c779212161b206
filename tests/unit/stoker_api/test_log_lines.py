"""Log lines that contain untrusted text."""

import asyncio
import io
import json
import logging
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stoker_api.log_lines import FORMAT, MOST_FIELD, MOST_LINE, BoundedFormatter, JsonFormatter, log_subject
from tests.support.json_log import json_log


def logged(message: str, *arguments: object, error: Exception | None = None) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(BoundedFormatter("%(levelname)s: %(message)s"))
    info = None if error is None else (type(error), error, None)
    made = logging.LogRecord("test", logging.WARNING, "", 0, message, arguments, info)
    handler.handle(made)
    return stream.getvalue()


@given(st.text(), st.integers(1, 100_000))
def test_any_text_is_one_line_of_bounded_length(text: str, times: int) -> None:
    line = logged("the store said %s", text * times)
    assert len(line) <= MOST_LINE + 1
    assert line.splitlines() == [line[:-1]]


def test_plain_words_stay_as_they_are() -> None:
    assert logged("volume=%s é", "csi-1") == "WARNING: volume=csi-1 é\n"


@pytest.mark.parametrize("length", [10, 10**6])
def test_a_traceback_follows_and_is_bounded_too(length: int) -> None:
    line = logged("it failed", error=ValueError("x" * length))
    assert line.splitlines()[1].startswith("ValueError: xxx")
    assert len(line) <= MOST_LINE + 1


HOSTILE = "a\nb\x1b[31m\u202e\ud800\u2028"


def json_line(message: str, error: Exception | None = None, **subject: str) -> str:
    info = None if error is None else (type(error), error, None)
    record = logging.LogRecord("test", logging.WARNING, "", 0, message, (), info)
    with log_subject(**subject):
        return JsonFormatter({"node": "node-1"}).format(record)


def test_a_json_line_has_the_subject_s_fields() -> None:
    line = json.loads(json_line("it failed", uid="u1", namespace="vision", pod="train-0", dataset="imagenet"))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "WARNING",
        "logger": "test",
        "message": "it failed",
        "node": "node-1",
        "uid": "u1",
        "namespace": "vision",
        "pod": "train-0",
        "dataset": "imagenet",
    }


@example("\U00012544\r", 50_000)
@given(st.text(), st.integers(1, 50_000))
def test_any_text_is_one_json_line_of_bounded_bytes(text: str, times: int) -> None:
    line = json_line(text * times, ValueError(text * times), pod=text * times)
    assert line.isprintable() or "\\n" in line
    assert len(line.encode()) <= 3 * MOST_LINE
    assert len(json.loads(line).get("pod", "").encode()) <= MOST_FIELD


@pytest.mark.parametrize("times", [1, 100_000])
def test_a_hostile_name_is_printable_in_json(times: int) -> None:
    name = json.loads(json_line("x", pod=HOSTILE * times))["pod"]
    assert name.isprintable()
    assert name.startswith("a\\nb\\x1b[31m")


async def test_tasks_log_the_subject_that_created_them() -> None:
    log = logging.getLogger("stoker.test")

    async def work() -> None:
        log.info("works")

    with json_log("stoker.test") as lines:
        with log_subject(uid="u1"):
            task = asyncio.create_task(work())
        await task
        await work()
    assert [line.get("uid") for line in lines] == ["u1", None]


@pytest.mark.parametrize(("form", "start"), [("json", '{"time": "'), ("text", "20")])
def test_a_process_logs_in_the_form_of_its_environment(form: str, start: str) -> None:
    code = "import logging; from stoker_api.log_lines import log_to_stderr; log_to_stderr('info'); logging.error('x')"
    done = subprocess.run([sys.executable, "-c", code], env={FORMAT: form}, capture_output=True, text=True, check=True)
    assert done.stderr.startswith(start)
