"""Installs the harness's Debian packages without starting their services."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.processes import run

# A program of each package. Its presence shows that the package is installed.
PACKAGES = {
    "busybox-static": "/usr/bin/busybox",
    "ca-certificates": "/usr/sbin/update-ca-certificates",
    "conntrack": "/usr/sbin/conntrack",
    "containerd": "/usr/bin/containerd",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "e2fsprogs": "/usr/sbin/mke2fs",
    "etcd-server": "/usr/bin/etcd",
    "iproute2": "/usr/sbin/ip",
    "iptables": "/usr/sbin/iptables",
    "kmod": "/usr/sbin/modprobe",
    "nftables": "/usr/sbin/nft",
    "openssl": "/usr/bin/openssl",
    "runc": "/usr/sbin/runc",
    "socat": "/usr/bin/socat",
    "util-linux": "/usr/bin/nsenter",
}
IMAGE_PACKAGES = {"buildah": "/usr/bin/buildah", "debootstrap": "/usr/sbin/debootstrap"}
SERVICES = {"etcd-server": "etcd", "containerd": "containerd"}
POLICY = Path("/usr/sbin/policy-rc.d")


def missing(packages: dict[str, str]) -> list[str]:
    """Return the packages with missing programs."""
    return sorted(name for name, program in packages.items() if not Path(program).exists())


def install(packages: dict[str, str]) -> list[str]:
    """Install missing packages and return their names. Raises CommandFailedError with the output of apt."""
    if not (wanted := missing(packages)):
        return []
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "update", "-qq", env=environment)
    with _no_service_starts():
        run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *wanted, env=environment)
    if Path("/run/systemd/system").exists():
        for package in SERVICES.keys() & set(wanted):
            run("systemctl", "disable", "--now", SERVICES[package], check=False)
    return wanted


@contextmanager
def _no_service_starts() -> Iterator[None]:
    """Prevent Debian from starting a package's service with a denying policy, unless the machine has its own."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()
