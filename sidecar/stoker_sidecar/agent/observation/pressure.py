"""Which cgroups and pressure figures this node has."""

from pathlib import Path

_PRESSURE = Path("/proc/pressure/io")


def pressure_support(cgroups: Path, pressure: Path = _PRESSURE) -> str:
    """Describe the node's cgroups at ``cgroups`` and its pressure figures (PSI), or say "None" and why."""
    if not (cgroups / "cgroup.controllers").exists():
        return f"None: {cgroups} is not cgroup v2"
    try:
        pressure.read_bytes()
    except OSError:
        return "None: the kernel counts no pressure: boot it with psi=1, or build it with CONFIG_PSI"
    return "cgroup v2, with pressure of disks"
