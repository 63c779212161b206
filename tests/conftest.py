"""For all tests: an unexpected warning in Stoker's logs fails the test. hypothesis has no time limit."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import hypothesis
import pytest

from tests.support.log_check import unexpected

FOLDER = Path(__file__).parent
# Integration tests kill processes and cut connections at any moment, so their log records depend on timing.
CHECKED = ("unit", "contract", "model")
PHASES: tuple[Literal["setup", "call", "teardown"], ...] = ("setup", "call", "teardown")

# The tests' S3 servers are on loopback, which is refused by default. Child processes inherit this permission.
os.environ["STOKER_ENDPOINT_NETWORKS"] = "127.0.0.0/8,::1/128"

# A busy machine is not an error of the code. pytest's own timeout ends a test that hangs.
hypothesis.settings.register_profile("stoker", deadline=None)
hypothesis.settings.load_profile("stoker")


@pytest.fixture(autouse=True)
def quiet_logs(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail a test with log records that no ``@pytest.mark.expected_logs("regular expression", ...)`` of it announces.

    It is set up before a test's own fixtures and torn down after them, so the records of their teardown count too. Logs
    of child processes do not count.
    """
    yield
    if request.path.relative_to(FOLDER).parts[0] not in CHECKED:
        return
    expected = [pattern for marker in request.node.iter_markers("expected_logs") for pattern in marker.args]
    records = [record for phase in PHASES for record in caplog.get_records(phase)]
    if lines := unexpected(records, expected):
        pytest.fail("logged, and not announced by the marker expected_logs:\n" + "\n".join(lines), pytrace=False)
