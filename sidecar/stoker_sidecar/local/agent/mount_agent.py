"""The agent of one mount: requests a listing, mounts the version, and reports progress. The keeper starts it."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from stoker_api.log_lines import log_to_stderr
from stoker_api.node_caches.node_answer import MountFigures
from stoker_api.node_caches.node_dataset_status import NodeDatasetStatus, NodePhase
from stoker_sidecar.agent.core.commands import Held
from stoker_sidecar.agent.planning.fetcher_link import FetcherLink
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.agent.questions.plugins.node_plugins import node_plugins
from stoker_sidecar.errors import SidecarError
from stoker_sidecar.linux.hardware import read_machine
from stoker_sidecar.local.agent.figures_socket import FiguresSocket
from stoker_sidecar.local.agent.mount_methods import MountMethod, PublishedMount, UnprivilegedMount
from stoker_sidecar.local.agent.mount_plugins import MountPlugins
from stoker_sidecar.local.agent.tuning_file import TuningFile
from stoker_sidecar.local.mounts.mount_paths import UID, HomePaths, RunPaths
from stoker_sidecar.local.mounts.mount_spec import MountSpec
from stoker_sidecar.local.reports.report import Report, Stage, for_workstation, write_report
from stoker_sidecar.local.reports.report_parts import OrderReport, TuningReport
from stoker_sidecar.tuning.machine_facts import MachineFacts
from stoker_sidecar.tuning.mount_read_ahead import MountReadAhead
from stoker_sidecar.tuning.tuner import Tuner, TuningSubject
from stoker_sidecar.volumes.versions_on_disk import CacheFolders
from stoker_sidecar.wire.config.settings import AbsolutePath, ProcessSettings, setting
from stoker_sidecar.wire.credentials import AmbientCredentials
from stoker_sidecar.wire.fetcher_protocol import LISTED_OBJECTS
from stoker_sidecar.wire.heartbeat import Heartbeat
from stoker_tuning.rules.facts import Surroundings, WorkloadFacts

if TYPE_CHECKING:
    from stoker_sidecar.local.agent.mount_watch import MountWatch
    from stoker_sidecar.local.agent.said_samples import SamplesCheck

log = logging.getLogger("stoker.mount")
NOT_OBSERVED = "it was mounted without --observe, so its readers are not observed."
# Rules sort some 50,000 files in this time. Larger mounts start without them.
_TUNED_SECONDS = 2.0


class MountAgentSettings(ProcessSettings):
    """The settings of a mount's agent. The run folder has the rest."""

    program: ClassVar[str] = "python -m stoker_sidecar.local.agent.mount_agent"
    about: ClassVar[str] = "The agent of one stoker mount."

    run_dir: AbsolutePath = setting("folder of sockets, spec and report")
    heartbeat_fd: int | None = setting("the line to the keeper that started this process", None)


class MountAgent:
    """Serves one mount until it is stopped.

    After a restart, it finds the listing done and the mount in place.
    """

    def __init__(self, spec: MountSpec, run: RunPaths, *, root: bool) -> None:
        self._spec = spec
        self._run = run
        self._version = ""  # mounted, or about to be
        self._plan = NodePlan()
        self._method: MountMethod = (
            PublishedMount(spec, run, self._plan) if root else UnprivilegedMount(spec, run, self._plan.changes.mark)
        )
        self._link = FetcherLink(run.fetcher_socket, self._plan, self._held)
        plan, folders = self._plan, CacheFolders([HomePaths(spec.home).cache])
        order_plugins = (spec.order_plugin,) if spec.order_plugin else ()
        self._asked = node_plugins(run.folder, spec.plugins, order_plugins, plan.changes)
        self._plugins = MountPlugins(self._asked, folders, plan.changes) if spec.plugins else None
        self._samples = self._samples_check(folders) if spec.sampling else None
        self._tuning = TuningFile(spec.tuning, plan.changes, off=not spec.tuned, plugins=self._asked.documents)
        self._machine = MachineFacts(read_machine(()), lambda: plan.disk.capacity)
        self._watch = self._watched(folders) if spec.observe else None
        self._tuner = (
            self._watch.tuner
            if self._watch is not None
            else Tuner(self._tuning, folders, self._subjects, plan.take_tuning, plan.changes)
        )
        self._read_ahead = MountReadAhead(
            HomePaths(spec.home).mounts, self._method.served, self._tuner.in_force, (plan.changes, self._tuner.news)
        )
        self._stage = Stage.STARTING
        self._message = ""

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve the mount until ``stopping`` is set, then unmount what this process mounted. Raises VolumeError."""
        self._plan.take_node_cache(self._spec.plan(""))
        self._plan.take_credentials(UID, AmbientCredentials())
        parts = (
            self._link.run(),
            self._bring_up(),
            self._method.improve(),
            self._tell(),
            self._tuning.run(),
            self._tuner.run() if self._watch is None else self._watch.run(),
            self._read_ahead.run(),
            FiguresSocket(self._figures, self._watch.learning.history if self._watch is not None else None).run(
                self._run.figures_socket
            ),
            self._asked.run(),
            self._ask_plugins(),
        )
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(part) for part in parts]
            await stopping.wait()
            for task in running:
                task.cancel()
        # Not after a failed part: the next agent takes over the mount, and readers notice nothing.
        await self._method.unmount()

    def _watched(self, folders: CacheFolders) -> "MountWatch":
        # Imported late: following readers takes some MB, which an unobserved mount does not need.
        from stoker_sidecar.local.agent.mount_watch import MountWatch

        return MountWatch(
            self._spec,
            self._run,
            self._plan,
            folders,
            self._method,
            self._tuning,
            tell=self._link.ask,
            plugins=self._asked,
            version=lambda: self._version,
            framework=lambda: self._plugins.framework if self._plugins is not None else "",
            system=self._machine.system,
        )

    def _samples_check(self, folders: CacheFolders) -> "SamplesCheck":
        from stoker_sidecar.agent.questions.reading.version_reader import (
            VersionReader,  # with all orders, which most mounts do not need
        )
        from stoker_sidecar.local.agent.said_samples import SamplesCheck
        from stoker_sidecar.wire.reader_protocol import SOCKET as READER_SOCKET

        reader = VersionReader(self._run.folder / READER_SOCKET)
        return SamplesCheck(self._spec.sampling, folders, reader, self._link.ask, self._plan.changes)

    def _figures(self) -> MountFigures:
        # Imported late: it loads the models of training, which mounting does not need.
        from stoker_sidecar.agent.core.status import node_hardware

        watch = self._watch
        return MountFigures(
            folder=str(self._spec.folder),
            workloads=watch.rows() if watch is not None else (),
            unseen=watch.unseen if watch is not None else NOT_OBSERVED,
            tuning=str(self._spec.tuning or ""),
            hardware=node_hardware(self._machine.machine),
        )

    def _subjects(self) -> Iterator[TuningSubject]:
        if not self._version:
            return
        system, framework = self._machine.system(), self._plugins.framework if self._plugins is not None else ""
        around = (Surroundings(workload=WorkloadFacts(framework=framework), system=system),) if framework else ()
        yield TuningSubject((UID, self._version), around, system=system)

    def _held(self) -> Held:
        return {UID: self._method.held()}

    async def _bring_up(self) -> None:
        version = self._spec.version or await self._listed()
        if not version:
            return
        self._enter(Stage.MOUNTING)
        self._version = version
        await self._tuned()
        self._plan.take_node_cache(self._spec.plan(version))
        try:
            if self._samples is not None:
                await self._samples.refuse_what_is_not_there((UID, version), self._spec.source.uri)
            await self._method.mount(version)
            if self._watch is not None:
                await self._watch.reports.until_heard()
        except SidecarError as error:
            self._enter(Stage.FAILED, error.message)
        else:
            self._enter(Stage.MOUNTED)

    async def _ask_plugins(self) -> None:
        """Ask plug-ins for the files' framework, after the version is known."""
        while not self._version:
            await self._plan.changes.wait()
        if self._plugins is not None:
            await self._plugins.look((UID, self._version))

    async def _tuned(self) -> None:
        """Wait briefly until rules are in force, so that warm-up starts with their first files."""
        self._plan.changes.mark()
        with suppress(TimeoutError):
            async with asyncio.timeout(_TUNED_SECONDS if self._spec.eager else 0.0):
                while (UID, self._version) not in self._tuner.in_force:
                    await self._tuner.news.wait()

    async def _listed(self) -> str:
        """Return the version from a listing, or an empty string after a failure."""
        self._enter(Stage.LISTING)
        while True:
            token = self._plan.changes.token()
            row = self._plan.status_of(UID)
            listing = row.listing if row is not None else None
            waits = row is not None and row.phase is NodePhase.LISTING  # for the source; then it continues
            if listing is not None and listing.id == self._spec.listing_id and listing.error is not None and not waits:
                self._enter(Stage.FAILED, listing.error.message)
                return ""
            if listing is not None and listing.id == self._spec.listing_id and listing.version:
                return listing.version
            await self._plan.changes.wait(token)

    def _enter(self, stage: Stage, message: str = "") -> None:
        log.info("%s %s", stage, message)
        self._stage, self._message = stage, message
        self._plan.changes.mark()

    async def _tell(self) -> None:
        """Write a report at every change."""
        while True:
            token = self._plan.changes.token()
            write_report(self._run.report, self._report())
            await self._plan.changes.wait(token)

    def _report(self) -> Report:
        plan = self._plan
        return Report(
            stage=self._stage,
            message=for_workstation(self._message),
            listed=sum(count.value for count in plan.counts if count.name == LISTED_OBJECTS),
            mode=self._method.mode,
            row=_reworded(plan.status_of(UID)),
            tuning=self._tuning_report(),
            order=self._order(),
            report_socket=self._watch.reports.socket if self._watch is not None else "",
        )

    def _order(self) -> OrderReport:
        order = self._watch.order if self._watch is not None else OrderReport()
        return order.model_copy(update={"message": for_workstation(order.message)})

    def _tuning_report(self) -> TuningReport:
        tuned = self._watch.tuned if self._watch is not None else ""
        report = self._tuning.report(self._tuner.in_force.get((UID, self._version)), tuned)
        if self._plugins is None:
            return report
        trouble = "; ".join(filter(None, (report.trouble, self._plugins.trouble())))
        return report.model_copy(update={"framework": self._plugins.framework, "trouble": trouble})


def _reworded(row: NodeDatasetStatus | None) -> NodeDatasetStatus | None:
    if row is None or row.error is None:
        return row
    error = row.error.model_copy(update={"message": for_workstation(row.error.message)})
    return row.model_copy(update={"error": error})


async def serve(agent: MountAgent, heartbeat: Heartbeat) -> None:
    """Run the agent until SIGTERM or SIGINT."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    sending = asyncio.create_task(heartbeat.send_forever(asyncio.sleep))
    await agent.run(stopping)
    sending.cancel()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent. Return the exit code."""
    settings = MountAgentSettings.parse(sys.argv[1:] if argv is None else argv)
    log_to_stderr("info")
    heartbeat = Heartbeat(settings.heartbeat_fd)
    heartbeat.wait_to_begin()
    run = RunPaths(settings.run_dir)
    agent = MountAgent(MountSpec.model_validate_json(run.spec.read_text()), run, root=os.geteuid() == 0)
    try:
        asyncio.run(serve(agent, heartbeat))
    except (OSError, SidecarError) as error:
        log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    os._exit(main())  # the unmounting user waits: freeing all memory first takes 0.1 s
