"""The node's requests in flight while readers wait all the time, as in an epoch from a distant source."""

from stoker_sidecar.fetcher.sources.core.concurrency import START
from stoker_sidecar.fetcher.sources.core.lanes import Lane, QueuedRequest
from stoker_sidecar.fetcher.sources.pipeline import Pipeline

SMALL = 100 * 1024
LATENCY = 0.020  # seconds


class Epoch:
    """Two readers, one of which always waits, and an endless window ahead of them.

    All answers take the same time.
    """

    def __init__(self, ahead: int) -> None:
        self.now = 0.0
        self.pipeline = Pipeline(lambda: self.now)
        self._ahead = ahead
        self._flying: list[QueuedRequest] = []
        self._asked = dict.fromkeys(Lane, 0)

    def run(self, seconds: float) -> int:
        """Run for ``seconds``. Return the allowed number of requests in flight after that."""
        until = self.now + seconds
        while self.now < until:
            self._ask(Lane.DEMAND, 2)
            self._ask(Lane.READAHEAD, self._ahead)
            self.now += LATENCY
            landed, self._flying = self._flying, []
            for request in landed:
                self._ask(Lane.DEMAND, 2)
                held_back = self.pipeline.lanes.held_back
                self._asked[request.lane] -= 1
                self.pipeline.lanes.done(request)
                self.pipeline.landed(request.size, None, busy=held_back)
        return self.pipeline.limit.value

    def _ask(self, lane: Lane, most: int) -> None:
        while self._asked[lane] < most:
            self._ask_for_one(lane)

    def _ask_for_one(self, lane: Lane) -> None:
        def decided(wanted: bool) -> None:
            assert wanted
            self._flying.append(request)

        self._asked[lane] += 1
        request = QueuedRequest(lane, SMALL, decided)
        self.pipeline.lanes.ask(request)


def test_the_limit_grows_though_a_reader_waits_all_the_time() -> None:
    assert Epoch(ahead=200).run(1.0) >= 4 * START


def test_the_limit_stays_where_less_is_asked_for_than_may_be() -> None:
    assert Epoch(ahead=4).run(1.0) == START
