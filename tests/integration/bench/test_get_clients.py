"""The program that compares Stoker's GET client with awscrt's."""

import pytest

from bench.get_clients import main


def test_each_client_gets_all_bodies_and_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rounds", "1", "--gets", "40"]) == 0
    rows = [(line[:20].strip(), line[21:41].strip()) for line in capsys.readouterr().out.splitlines()]
    small, large = "objects of 100 KiB", "ranges of 8 MiB"
    ours, others = "Stoker's own", ["awscrt S3", "awscrt HTTP"]
    assert [client for case, client in rows if case == large] == [ours, *others]
    assert [client for case, client in rows if case == small] == [ours, others[0], "awscrt S3, to files", others[1]]
