"""Reports about cgroups and pressure figures."""

from pathlib import Path

from stoker_sidecar.agent.observation.observation import pressure_support
from tests.support.cases import cases


@cases(
    "controllers, pressure, report",
    (True, True, "cgroup v2, with pressure of disks"),
    (False, True, "is not cgroup v2"),
    (True, False, "None: the kernel counts no pressure"),
)
def test_a_node_reports_what_it_lacks(tmp_path: Path, controllers: bool, pressure: bool, report: str) -> None:
    for name, exists in (("cgroup.controllers", controllers), ("io", pressure)):
        if exists:
            (tmp_path / name).touch()
    assert report in pressure_support(tmp_path, tmp_path / "io")
