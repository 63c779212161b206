"""Says what went wrong in the words of a workstation: errors are written for clusters, with Secrets, Datasets and nodes. Pure."""

_KEYS = "in the environment or in the profile (--profile)"
_AGAIN = "unmount, and mount again"
# In this order: what comes first may hold what comes later.
_WORDS = (
    ("put its CA into the key ca.crt of the Secret", "name the file of its CA in AWS_CA_BUNDLE"),
    ("renew the Secret, unless a role's keys renew themselves", f"renew it {_KEYS}, then {_AGAIN}"),
    ("in the Secret", _KEYS),
    ("the ServiceAccount's token", "the web identity token"),
    ("to this identity", "to this identity; without credentials, requests are not signed"),
    ("refresh the Dataset", _AGAIN),
    (
        "have the folder that it leads to named in the chart's value sidecar.hostFolders",
        "mount a folder that holds what it leads to as well",
    ),
    ("this node has no folder", "there is no folder"),
    ("mount it on every selected node", "check its name, and that it is mounted"),
    ("by the sidecar", "by this user"),
    ("the node", "this machine"),
    ("this node", "this machine"),
    ("source.uri", "the URL"),
    ("source.endpoint", "--endpoint"),
    ("source.region", "--region"),
    ("source.exclude", "--exclude"),
    ("cache.quota", "--quota"),
)


def for_workstation(message: str) -> str:
    """``message``: a sentence of stoker_sidecar.errors."""
    for cluster, workstation in _WORDS:
        message = message.replace(cluster, workstation)
    return message
