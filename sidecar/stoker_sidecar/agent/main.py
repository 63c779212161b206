"""Entry point of the agent: ``python -m stoker_sidecar.agent.main``, started by the keeper."""

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence

from stoker_kube.client import KubeClient
from stoker_kube.errors import ConfigError
from stoker_sidecar.agent.agent import Agent
from stoker_sidecar.agent.settings import AgentSettings, parse
from stoker_sidecar.wire.heartbeat import Lifeline

log = logging.getLogger("stoker.agent")


async def run(settings: AgentSettings, lifeline: Lifeline) -> None:
    """Until SIGTERM or SIGINT. Raises ConfigError and OSError when it cannot start."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with await KubeClient.connect(settings.node.kubeconfig) as kube:
        beating = asyncio.create_task(lifeline.beat_for_ever())
        await Agent(settings, kube).run(stopping)
        beating.cancel()
    log.info("stopped")


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    settings = parse(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    lifeline = Lifeline(settings.lifeline_fd)
    lifeline.wait_to_begin()
    try:
        asyncio.run(run(settings, lifeline))
    except (ConfigError, OSError) as error:
        log.error("the agent cannot start: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
