"""The node's reports: the NodeCache status, answers to people and the operator, and readiness."""

import time
from dataclasses import dataclass

from stoker_api.node_caches.node_answer import MOST_BYTES, MOST_FIGURES_BYTES, NodeAnswer
from stoker_api.node_caches.nodecache_status import NodeCacheStatus
from stoker_api.times import format_time
from stoker_sidecar.agent.core.disk_figures import DiskFigures
from stoker_sidecar.agent.core.status import (
    Facts,
    dataset_rows,
    node_hardware,
    node_status,
    steady,
    steady_folders,
)
from stoker_sidecar.agent.core.status_room import fitted
from stoker_sidecar.agent.csi.driver import Driver, RegistrationService
from stoker_sidecar.agent.http.peers.peer_server import PeerIdentity
from stoker_sidecar.agent.learning.node_rules import NodeRules
from stoker_sidecar.agent.learning.tuning_profiles import TuningProfiles
from stoker_sidecar.agent.observation.observation import Observation
from stoker_sidecar.agent.planning.plan import NodePlan
from stoker_sidecar.agent.pods.node_workloads import NodeWorkloads
from stoker_sidecar.agent.pods.pod_accounts import PodAccounts
from stoker_sidecar.agent.questions.plugins.node_plugins import NodePlugins
from stoker_sidecar.linux.hardware import Machine
from stoker_sidecar.volumes.node_volumes import NodeVolumes
from stoker_sidecar.wire.dataset_texts import with_short_texts

# Seconds without the fetcher before the status says so: the keeper starts it again within one or two.
FETCHER_GRACE = 10.0
_MOST_ANSWERED_TEXTS = 4_000_000  # characters of Datasets' rows in an answer


@dataclass
class NodeReport:
    """Reports from the agent's parts.

    ``address``: host:port for other nodes, or empty. ``confinement``: what confines the fetcher and FUSE servers, as a
    sentence. ``identified``: the restored mounts are named. ``registration``: with the kubelet, once it was tried.
    """

    driver: Driver
    plan: NodePlan
    volumes: NodeVolumes
    observation: Observation
    plugins: NodePlugins
    workloads: NodeWorkloads
    profiles: TuningProfiles
    rules: NodeRules
    accounts: PodAccounts
    identity: PeerIdentity
    machine: Machine
    address: str
    confinement: str
    identified: bool = False
    registration: RegistrationService | None = None

    def status(self, written: NodeCacheStatus | None) -> NodeCacheStatus | None:
        """Return the status to write after ``written``; None before the mounts are identified."""
        if self.plan.generation is None or not self.identified:
            return None
        return node_status(self._facts(written), written.conditions if written else self.plan.conditions)

    def answer(self) -> NodeAnswer:
        """Return what the node knows, within the bounds of an answer instead of those of a status."""
        facts, name = self._facts(None), self.driver.node_name
        answer = NodeAnswer(
            node=name,
            sidecar_version=facts.version,
            trouble=facts.trouble,
            capacity_bytes=facts.disk.capacity,
            used_bytes=facts.disk.used,
            available_bytes=facts.disk.available,
            datasets=with_short_texts(dataset_rows(facts), _MOST_ANSWERED_TEXTS),
            mounts=facts.mounts,
            workloads=self.workloads.everything(),
            ended=facts.ended,
            ended_left_out=facts.ended_left_out,
        )
        return fitted(answer, MOST_BYTES // 2)  # JSON of HTTP escapes more

    def figures(self) -> NodeAnswer:
        """Return what the operator shows to the owners of pods."""
        answer = NodeAnswer(
            node=self.driver.node_name,
            sidecar_version=self.driver.version,
            mounts=self.volumes.publisher.rows(),
            workloads=self.workloads.everything(),
            hardware=node_hardware(self.machine),
        )
        return fitted(answer, MOST_FIGURES_BYTES // 2)  # JSON of HTTP escapes more

    def _facts(self, written: NodeCacheStatus | None) -> Facts:
        plan = self.plan
        return Facts(
            generation=plan.generation or 0,
            plan=plan.datasets,
            rows=plan.rows,
            leftovers=plan.leftovers,
            found={uid: plan.orphans.get(uid, ()) for uid in plan.kept | plan.planned.keys()},
            inventory=plan.inventory,
            mounts=self.volumes.publisher.rows(),
            profiles=self.profiles.rows(),
            figures=self.rules.figures(),
            workloads=self.workloads.rows(),
            disk=steady(plan.disk, _disk_of(written)) if written else plan.disk,
            folders=steady_folders(plan.folders, written.cache_folders) if written else plan.folders,
            modes=self.volumes.modes,
            modes_message=self.volumes.why_no_overlay,
            confinement=self.confinement,
            observer=self.observation.message,
            pressure=self.observation.pressure,
            refused=self.volumes.overlays.refused,
            address=self.address,
            version=self.driver.version,
            peer_key=self.identity.public_key,
            trouble=self._trouble(),
            now=format_time(time.time()),
            hardware=node_hardware(self.machine),
            rates=self.rules.acting.rates.known(),
            plugins=self.plugins.rows(),
            order_plugins=self.plugins.order_rows(),
            memory=plan.memory,
            cpus=plan.cpus,
            origins=plan.origins,
            workload_count=self.workloads.count(),
            ended=self.accounts.rows(),
            ended_left_out=self.accounts.left_out,
        )

    def _trouble(self) -> str:
        """Return why this node does not serve Datasets well, as a sentence; empty if it does."""
        if not self.plan.fetcher_connected and self.plan.fetcher_age() > FETCHER_GRACE:
            return (
                "The fetcher does not answer, so nothing new reaches this node's disk; cached data is still served. "
                "Look at the logs of the node's stoker-sidecar pod."
            )
        if self.registration is not None and self.registration.error:
            why = self.registration.error
            return f"The kubelet refused to register the CSI driver, so pods cannot mount datasets here: {why}"
        return ""

    def not_ready(self) -> str:
        """Return why the readiness probe fails; empty if it succeeds.

        A missing NodeCache is no reason: the operator makes it for ready sidecars.
        """
        if not self.plan.synced:
            return "The API server has not been reached yet."
        if not self.plan.fetcher_connected:
            return "The fetcher does not answer yet."
        return ""


def _disk_of(status: NodeCacheStatus) -> DiskFigures:
    return DiskFigures(status.capacity_bytes, status.used_bytes, status.available_bytes)
