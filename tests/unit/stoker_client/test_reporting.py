"""Reports of a training use the protocol's format, are rate-limited, and never block the training."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stoker_client import TrainingReport
from stoker_client.internal.report_socket import ReportSocket, encode
from stoker_tuning.reports.figures import ReportFigures
from stoker_tuning.reports.line import ReportLine, parse_line


@dataclass
class Node:
    """A real socket like that of a node, read by the node's parser, and a fake clock."""

    path: Path
    now: float = 100.0
    lines: list[ReportLine] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.bound.bind(str(self.path))
        self.bound.setblocking(False)

    def report(self, **options: Any) -> TrainingReport:
        socket_there = ReportSocket(str(self.path))
        return TrainingReport(rank=0, world_size=1, socket=socket_there, clock=lambda: self.now, **options)

    def heard(self) -> list[ReportLine]:
        """Return the lines since the last call, as parsed by a node."""
        found = []
        while True:
            try:
                found.append(parse_line(self.bound.recv(5000)))
            except BlockingIOError:
                return found


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path / "report.sock")
    yield made
    made.bound.close()


def test_what_is_said_is_heard_in_the_protocols_words(node: Node) -> None:
    node.report(framework="pytorch").say(
        epoch=3, epochs=90, loss=0.5, learning_rate=1e-3, saved="/c/3.pt", kind="Weights"
    )
    (line,) = node.heard()
    assert (line.epoch, line.epochs, line.loss, line.learning_rate) == (3, 90, 0.5, 1e-3)
    assert (line.saved, line.rank, line.world_size, line.framework) == ("/c/3.pt", 0, 1, "pytorch")
    assert line.unknown == ()


def test_a_line_a_second_says_what_was_said_meanwhile(node: Node) -> None:
    report = node.report()
    for step in range(1000):
        report.say(step=step, batch_size=8, wait_seconds=0.001, compute_seconds=0.002)
        node.now += 0.003
    lines = node.heard()
    assert len(lines) == 3
    assert sum(line.wait_seconds or 0 for line in lines) == pytest.approx(0.67, abs=0.01)
    report.flush()
    assert sum(line.compute_seconds or 0 for line in [*lines, *node.heard()]) == pytest.approx(2.0)


def test_news_does_not_wait_for_its_second_but_is_bounded(node: Node) -> None:
    report = node.report()
    report.say(epoch=0)
    report.say(phase="SaveCheckpoint")
    report.say(split="train", batch=1)
    assert [line.phase for line in node.heard()] == [None, "SaveCheckpoint", None]
    for epoch in range(1, 1000):
        report.say(epoch=epoch)
        node.now += 0.001
    assert len(node.heard()) <= 5 + 1


def test_batches_of_training_and_of_validation_are_in_different_lines(node: Node) -> None:
    report = node.report()
    report.say(split="train", batch=7, step=700)
    report.say(split="train", batch=8, step=701)
    report.say(split="validation", batch=0)
    assert [(line.split, line.batch, line.step) for line in node.heard()] == [
        ("train", 7, 700),
        ("train", 8, 701),
        ("validation", 0, None),
    ]


def test_a_loader_measures_what_is_waited_for_and_counts(node: Node) -> None:
    class Slow:
        batch_size = 32

        def __len__(self) -> int:
            return 3

        def __iter__(self) -> Iterator[str]:
            for batch in "abc":
                node.now += 2.0
                yield batch

    report = node.report()
    loader = report.loader(Slow())
    seen = []
    for batch in loader:
        seen.append(batch)
        report.say(loss=1.5)
        node.now += 6.0
    lines = node.heard()
    assert (seen, len(loader), loader.batch_size) == (["a", "b", "c"], 3, 32)
    figures = ReportFigures()
    for at, line in enumerate(lines):
        figures.add(line, 100.0 + 8 * at)
    assert figures.summary(116.0).stall_percent == 25
    assert [(line.step, line.batch, line.batch_size) for line in lines if line.step] == [
        (1, 0, 32),
        (2, 1, 32),
        (3, 2, 32),
    ]


def test_a_loss_is_read_when_a_line_goes_out_and_only_then(node: Node) -> None:
    read = []

    class Tensor:
        def detach(self) -> "Tensor":
            return self

        def __float__(self) -> float:
            read.append(self)
            return 0.25

    report = node.report()
    for _ in range(100):
        report.say(loss=Tensor())
    assert len(read) == 1
    assert [line.loss for line in node.heard()] == [0.25]


def test_whatever_is_said_nothing_is_raised_and_the_rest_is_heard(node: Node) -> None:
    class Bad:
        def __float__(self) -> float:
            raise RuntimeError("of the accelerator")

        def __str__(self) -> str:
            raise RuntimeError

    report = node.report()
    report.say(loss=Bad(), batch="first", saved=Bad(), epoch=2, wait_seconds=1e9)
    report.say(wait_seconds="long")
    (line,) = node.heard()
    assert (line.epoch, line.loss, line.wait_seconds) == (2, None, 86_400.0)


def test_a_value_that_is_no_number_is_a_loss_too(node: Node) -> None:
    node.report().say(loss=float("nan"))
    (line,) = node.heard()
    assert line.loss is not None
    assert line.loss != line.loss


def test_long_texts_are_cut_so_that_the_line_is_taken(node: Node) -> None:
    node.report(framework="f" * 100).say(saved="/" + "s" * 5000, loaded="/" + "l" * 5000)
    (line,) = node.heard()
    assert (len(line.saved or ""), len(line.framework or "")) == (512, 40)


def test_what_a_full_socket_refuses_is_said_later(node: Node) -> None:
    report = node.report()
    for _ in range(10_000):  # no reader
        report.say(step=1, compute_seconds=0.5)
        node.now += 1.0
    first = node.heard()
    node.now += 1.0
    report.say(compute_seconds=0.5)
    total = sum(line.compute_seconds or 0 for line in [*first, *node.heard()])
    assert len(first) < 10_000
    assert total == pytest.approx(5000.5)


def test_a_socket_that_comes_later_is_found(tmp_path: Path) -> None:
    path = tmp_path / "report.sock"
    now = [0.0]
    report = TrainingReport(rank=0, world_size=1, socket=ReportSocket(str(path)), clock=lambda: now[0])
    report.say(epoch=1)
    node = Node(path)
    now[0] = 5.0
    report.say(loss=1.0)
    assert [(line.epoch, line.loss) for line in node.heard()] == [(1, 1.0)]
    node.bound.close()


def test_without_a_socket_nothing_is_opened_and_nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOKER_REPORT_SOCKET", raising=False)
    monkeypatch.setattr(socket, "socket", lambda *_: pytest.fail("a socket was made"))
    report = TrainingReport(rank=0, world_size=1)
    report.say(epoch=1, loss=object())
    report.flush()
    assert list(report.loader([1, 2])) == [1, 2]


def test_the_socket_is_that_of_the_pod(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_REPORT_SOCKET", str(node.path))
    TrainingReport(rank=1, world_size=2).say(epoch=4)
    assert [(line.epoch, line.rank, line.world_size) for line in node.heard()] == [(4, 1, 2)]


def test_a_rank_that_does_not_fit_its_world_is_not_said(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("WORLD_SIZE", "2")
    TrainingReport(socket=ReportSocket(str(node.path))).say(epoch=1)
    assert [(line.epoch, line.world_size) for line in node.heard()] == [(1, None)]


def test_one_that_is_saying_something_is_not_waited_for(node: Node) -> None:
    report = node.report()

    class Slow:
        def __float__(self) -> float:
            other = threading.Thread(target=report.say, kwargs={"epoch": 9})
            other.start()
            other.join(10)
            assert not other.is_alive()
            return 1.0

    report.say(loss=Slow())
    assert [(line.loss, line.epoch) for line in node.heard()] == [(1.0, None)]


def test_what_no_line_can_say_is_left_and_the_next_word_is_heard(node: Node) -> None:
    report = node.report()
    report.say(**{f"field{number}": 1 for number in range(1000)})
    node.now += 1.0
    report.say(epoch=1)
    assert [line.epoch for line in node.heard()] == [1]


def test_what_is_no_line_of_the_protocol_is_nothing() -> None:
    assert encode({"saved": "x" * 5000}) == encode({"loss": object()}) == encode({"saved": "\ud800"}) == b""
    assert parse_line(encode({"saved": "/größe"})).saved == "/größe"


def test_a_socket_that_was_closed_opens_again(node: Node) -> None:
    there = ReportSocket(str(node.path))
    assert there.send(b'{"epoch": 1}')
    there.close()
    assert there.send(b'{"epoch": 2}')
    assert [line.epoch for line in node.heard()] == [1, 2]
    there.close()
