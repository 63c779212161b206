"""The page on which a node answers who asks it itself, with what its NodeCache leaves out.

It names pods and Datasets of all namespaces, so it is on the pod's loopback address alone (see ``tuning_http``).
"""

from collections.abc import Callable

from aiohttp import web

from stoker_api.node_answer import PATH, NodeAnswer


class NodePage:
    """The page; ``answer`` gives what the node knows now."""

    def __init__(self, answer: Callable[[], NodeAnswer]) -> None:
        self._answer = answer

    def add_to(self, application: web.Application) -> None:
        """Serve it too."""
        application.router.add_get(PATH, self._show)

    async def _show(self, request: web.Request) -> web.StreamResponse:
        """Answer with all, or with what is about one Dataset (``dataset=NAMESPACE/NAME``)."""
        answer, dataset = self._answer(), request.query.get("dataset", "")
        return web.json_response((answer.about(dataset) if dataset else answer).wire())
