"""What is thought of an order plug-in: whether it is there, what was wrong last, when it is looked for again. Pure."""

from dataclasses import dataclass, replace

from stoker_api.nodecache import NodeOrderPlugin
from stoker_sidecar.agent.core.plugin_standing import AGAIN_SECONDS


@dataclass(frozen=True)
class OrderPluginStanding:
    """An order plug-in as the node has it. ``found``: it was loaded, or told an order.

    ``missing``: why it cannot be asked at all, and ``troubles``: how often that was so, last at ``since`` in seconds.
    ``refused``: why it told no order when it was asked last; that may be the fault of who asked.
    """

    name: str
    package: str = ""
    found: bool = False
    missing: str = ""
    troubles: int = 0
    since: float = 0.0
    refused: str = ""

    @property
    def known(self) -> bool:
        """Whether anything is known of it yet."""
        return self.found or bool(self.missing or self.refused)

    def again_in(self, now: float) -> float | None:
        """Return the seconds until one that is not there is looked for again; None: it is not."""
        if not self.missing or self.troubles > len(AGAIN_SECONDS):
            return None
        return max(0.0, self.since + AGAIN_SECONDS[self.troubles - 1] - now)

    def row(self) -> NodeOrderPlugin:
        """Return its row in the node's status."""
        refused = self.refused and f"it told no order when it was asked last: {self.refused}"
        return NodeOrderPlugin(name=self.name, package=self.package, message=self.missing or refused)


def after_look(standing: OrderPluginStanding, package: str, wrong: str, now: float) -> OrderPluginStanding:
    """Return the standing after a look; ``wrong``: why it cannot be asked, a sentence, empty where it can."""
    package = package or standing.package
    if wrong:
        return replace(standing, package=package, found=False, missing=wrong, troubles=standing.troubles + 1, since=now)
    return replace(standing, package=package, found=True, missing="", troubles=0)


def after_order(standing: OrderPluginStanding, refused: str = "") -> OrderPluginStanding:
    """Return the standing after a question; ``refused``: why there is no order, empty where there is."""
    if refused:
        return replace(standing, refused=refused)
    return replace(standing, found=True, missing="", troubles=0, refused="")
