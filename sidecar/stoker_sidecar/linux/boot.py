"""The kernel's boot id, which changes at each start of the machine."""

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the boot id: a UUID of 36 characters."""
    return _BOOT_ID.read_text().strip()
