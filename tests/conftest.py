"""For all tests: an unannounced warning in our logs fails the test; hypothesis sets no limit of time of its own."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import hypothesis
import pytest

from tests.support.log_check import unexpected

FOLDER = Path(__file__).parent
# Integration tests kill processes and cut connections at any moment: what is logged then is a matter of timing.
CHECKED = ("unit", "contract", "model")
PHASES: tuple[Literal["setup", "call", "teardown"], ...] = ("setup", "call", "teardown")

# The tests' S3 servers are on loopback, which is refused unless it is allowed; processes of tests inherit this.
os.environ["STOKER_ENDPOINT_NETWORKS"] = "127.0.0.0/8,::1/128"

# A busy machine is no fault of the code; pytest's own timeout ends a test that hangs.
hypothesis.settings.register_profile("stoker", deadline=None)
hypothesis.settings.load_profile("stoker")


@pytest.fixture(autouse=True)
def quiet_logs(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail the test that logged what no ``@pytest.mark.expected_logs("regular expression", ...)`` of it announces.

    Set up before a test's own fixtures, hence torn down after them: what they log at their end counts too. Processes
    that a test starts keep their logs to themselves.
    """
    yield
    if request.path.relative_to(FOLDER).parts[0] not in CHECKED:
        return
    expected = [pattern for marker in request.node.iter_markers("expected_logs") for pattern in marker.args]
    records = [record for phase in PHASES for record in caplog.get_records(phase)]
    if lines := unexpected(records, expected):
        pytest.fail("logged, and not announced by the marker expected_logs:\n" + "\n".join(lines), pytrace=False)
