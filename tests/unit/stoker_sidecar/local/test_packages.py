"""What `stoker mount` tells the user to install where the extra `mount` is missing, and what it does without."""

import subprocess
import sys

import pytest

from stoker_sidecar import local
from stoker_sidecar.local.__main__ import main


def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(local, "command", raising=False)
    monkeypatch.setitem(sys.modules, "stoker_sidecar.local.command", None)
    assert main(["mount", "s3://bucket", "/data"]) == 1
    assert "pip install '.[mount]'" in capsys.readouterr().err


def test_a_mount_without_a_file_of_rules_waits_for_no_import_of_what_rules_need() -> None:
    code = (
        "import sys, stoker_sidecar.local.command; print('stoker_sidecar.tuning' in sys.modules, 'yaml' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]


def test_a_command_waits_for_no_import_of_what_draws_a_bar() -> None:
    code = "import sys, stoker_sidecar.local.command; print('rich' in sys.modules, 'asyncio' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]


def test_unmounting_waits_for_no_import_of_models() -> None:
    code = "import sys, stoker_sidecar.local.__main__; print('pydantic' in sys.modules, 'yaml' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]
