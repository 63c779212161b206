"""Rate limits on report lines, for a pod and for all pods of the node. Pure."""

from collections.abc import Iterable


class Allowance:
    """A token bucket: ``per_second`` tokens a second, up to ``most``. ``now`` is always seconds of one clock."""

    def __init__(self, per_second: float, most: float) -> None:
        self._per_second, self._most = per_second, most
        self._left, self._at = most, 0.0

    def has(self, now: float) -> bool:
        """Return True if a token is available."""
        self._left = min(self._most, self._left + max(0.0, now - self._at) * self._per_second)
        self._at = now
        return self._left >= 1.0

    def take(self, now: float) -> bool:
        """Take a token. Return False if none is available."""
        if not self.has(now):
            return False
        self._left -= 1.0
        return True

    def resize(self, per_second: float, most: float) -> None:
        """Change rate and burst. The remaining lines stay, up to the new burst."""
        self._per_second, self._most = per_second, most
        self._left = min(self._left, most)


class NodeAllowance:
    """Lines of all pods of a node, shared equally among namespaces.

    Half of ``per_second`` is divided equally among the namespaces with pods. Namespaces that used up their share take
    from the second half. So a single namespace can use most of it, and never uses another namespace's share.
    """

    def __init__(self, per_second: float, most: float) -> None:
        self._per_second, self._most = per_second / 2, most / 2
        self._common = Allowance(per_second / 2, most / 2)
        self._shares: dict[str, Allowance] = {}

    def share_among(self, namespaces: Iterable[str]) -> None:
        """Divide the shares among these namespaces."""
        names = set(namespaces)
        each = self._per_second / max(1, len(names)), self._most / max(1, len(names))
        self._shares = {name: self._shares.get(name) or Allowance(*each) for name in names}
        for share in self._shares.values():
            share.resize(*each)

    def take(self, namespace: str, now: float) -> bool:
        """Take a token for a pod of this namespace. Return False if none is available."""
        share = self._shares.get(namespace)
        return (share is not None and share.take(now)) or self._common.take(now)
