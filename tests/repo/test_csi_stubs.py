"""The committed CSI stubs equal protoc's output for the .proto files."""

from pathlib import Path

import pytest

from stoker_sidecar.agent.csi.pb import generate


@pytest.mark.parametrize("name", ["csi_pb2.py", "csi_pb2.pyi", "registration_pb2.py", "registration_pb2.pyi"])
def test_stubs_are_current(name: str, tmp_path: Path) -> None:
    generate.generate(tmp_path)
    fresh = tmp_path / "stoker_sidecar" / "agent" / "csi" / "pb" / name
    command = "stale: run `python -m stoker_sidecar.agent.csi.pb.generate`"
    assert (generate.FOLDER / name).read_text(encoding="utf-8") == fresh.read_text(encoding="utf-8"), command
