"""The package that `stoker mount` recommends if the extra `mount` is missing, and features without it."""

import subprocess
import sys

import pytest

from stoker_sidecar.local import commands
from stoker_sidecar.local.__main__ import main
from tests.support.cases import cases


def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(commands, "mounting", raising=False)
    monkeypatch.setitem(sys.modules, "stoker_sidecar.local.commands.mounting", None)
    assert main(["mount", "s3://bucket", "/data"]) == 1
    assert "pip install '.[mount]'" in capsys.readouterr().err


@cases(
    "module, absent",
    mount=("stoker_sidecar.local.commands.mounting", {"stoker_sidecar.tuning", "yaml", "rich", "asyncio"}),
    umount=("stoker_sidecar.local.__main__", {"pydantic", "yaml"}),
)
def test_a_command_imports_neither_rules_nor_progress_bars(module: str, absent: set[str]) -> None:
    code = f"import sys, {module}; print(sorted({absent} & {{*sys.modules}}))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
