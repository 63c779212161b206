"""Has the kernel end one process, not the whole container with all its mounts, when the container's memory is used up."""

import logging
from pathlib import Path

_log = logging.getLogger("stoker.keeper")
_OWN_CGROUP = Path("/sys/fs/cgroup")  # as a container sees it, in a cgroup namespace of its own


def end_one_process_at_a_time(cgroup: Path = _OWN_CGROUP) -> None:
    """Since Kubernetes 1.28 the kubelet asks for the opposite on cgroup v2 (memory.oom.group), which would take the keeper too.

    One by one the largest goes first: a worker, the fetcher or the agent, each of which is started again.
    """
    group = cgroup / "memory.oom.group"
    if not group.exists():  # cgroup v1 knows no groups; the root, where no container is, has no such file
        return
    try:
        group.write_text("0")
    except OSError as error:
        _log.warning("%s: out of memory ends the whole sidecar (%s)", group, error.strerror)
