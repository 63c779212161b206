"""A malicious user with edit rights in one namespace, and a canary in another that must not be affected."""

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.cluster import CommandFailedError
from e2e.support import manifests
from e2e.support.bucket import Bucket
from e2e.support.manifests import Object
from e2e.support.world import PATIENCE, Home, NotSeenError, World

COUNT = "find /data -type f | wc -l"


@dataclass
class Tenant:
    """A service account with Kubernetes' own role ``edit`` in its namespace, and no other right."""

    world: World
    namespace: str

    def prepare(self) -> None:
        """Make the namespace, the account and its right."""
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "tenant", "namespace": self.namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": self.namespace}],
        }
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "tenant", "namespace": self.namespace},
        }
        self.world.make_namespace(self.namespace)
        self.world.apply(account, binding)

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """Return the output of kubectl for the tenant. Raises CommandFailedError with the error."""
        return self.world.kubectl(f"--as=system:serviceaccount:{self.namespace}:tenant", *args, stdin=stdin)

    def create(self, *objects: Object) -> None:
        """Create objects as the tenant. Raises CommandFailedError."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("create", "-f", "-", stdin=json.dumps(items))

    def refused(self, item: Object) -> str:
        """Return the message that refuses the tenant. Raises NotSeenError if the object is accepted."""
        try:
            self.create(item)
        except CommandFailedError as error:
            return str(error)
        raise NotSeenError(f"{item['kind']} {item['metadata']['name']} was accepted")

    def dataset(self, name: str, **spec: Any) -> Object:
        """Make a Dataset of the tenant with exactly this spec."""
        meta = {"name": name, "namespace": self.namespace}
        return {"apiVersion": "stoker.dev/v1alpha1", "kind": "Dataset", "metadata": meta, "spec": spec}

    def training_job(self, name: str, template: Object) -> Object:
        """Make a TrainingJob of the tenant."""
        meta = {"name": name, "namespace": self.namespace}
        spec = {"workers": 1, "template": template}
        return {"apiVersion": "stoker.dev/v1alpha1", "kind": "TrainingJob", "metadata": meta, "spec": spec}

    def pod(self, name: str, datasets: str, command: str = "sleep 600", **annotations: str) -> Object:
        """Make a pod of the tenant."""
        return manifests.pod(self.namespace, name, datasets, command, **annotations)

    def told(self, kind: str, name: str, words: str) -> Object:
        """Wait until a condition of the object has these words in its reason or message. Raises NotSeenError."""

        def is_told(item: Object) -> bool:
            conditions = item.get("status", {}).get("conditions", [])
            return any(words in f"{one['reason']}: {one['message']}" for one in conditions)

        return self.world.wait(kind, name, self.namespace, is_told)


@dataclass(frozen=True)
class Round:
    """One round of the canary: its start and duration in seconds, its error, and its events."""

    began: float
    seconds: float
    trouble: str
    story: str


@dataclass
class Canary:
    """Makes a Dataset and a pod that needs it warm, repeatedly, and records the duration of each round."""

    home: Home
    bucket: Bucket
    slow: float = 20.0  # allowed seconds of a round; the events of a slower one are stored
    rounds: list[Round] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self) -> None:
        """Make rounds until ``stop``."""
        number = 0
        while not self._stop.is_set():
            number += 1
            name, began = f"canary-{number}", time.monotonic()
            trouble = self._round(name)
            seconds = time.monotonic() - began
            story = self._story(name) if seconds >= self.slow else ""
            with self._changed:
                self.rounds.append(Round(began, seconds, trouble, story))
                self._changed.notify_all()
            self._clean(name)

    def stop(self) -> None:
        """Let the current round be the last."""
        self._stop.set()

    def next_round(self) -> Round:
        """Return the first round that starts from now on. Raises NotSeenError if it failed."""
        asked = time.monotonic()
        with self._changed:
            if not self._changed.wait_for(lambda: self._since(asked), 3 * PATIENCE):
                raise NotSeenError("the canary made no round")
            found = self._since(asked)[0]
        if found.trouble:
            raise NotSeenError(f"the canary's round failed: {found.trouble}")
        return found

    def check(self) -> None:
        """Fail if the next round is slow."""
        seen = self.next_round()
        assert seen.seconds < self.slow, _told([seen])

    def _since(self, began: float) -> list[Round]:
        return [one for one in self.rounds if one.began >= began]

    def _round(self, name: str) -> str:
        try:
            self.home.dataset(name, self.bucket)
            pod = manifests.pod(self.home.namespace, name, f"{name}:/data", COUNT, scheduling="Require")
            self.home.apply_pod(pod)
            self.home.world.finished(name, self.home.namespace)
            seen = self.home.world.logs(name, self.home.namespace).strip()
            return "" if seen == str(len(self.bucket.objects)) else f"{seen} files of {len(self.bucket.objects)}"
        except (AssertionError, CommandFailedError) as error:
            return str(error)

    def _story(self, name: str) -> str:
        """Return text with the times of the round's events, and the other load of the machine."""
        try:
            events = self.home.world.items(
                "events", "-n", self.home.namespace, "--field-selector", f"involvedObject.name={name}"
            )
        except CommandFailedError as error:
            return str(error)
        lines = [f"{one.get('lastTimestamp')} {one['reason']}: {one.get('message', '')}" for one in events]
        pressure = [Path(f"/proc/pressure/{what}") for what in ("cpu", "io", "memory")]
        load = [Path("/proc/loadavg"), *(one for one in pressure if one.exists())]
        return "\n".join([*lines, *(f"{one.name}: {one.read_text().splitlines()[0]}" for one in load)])

    def _clean(self, name: str) -> None:
        for kind in ("pod", "dataset"):
            self.home.world.cluster.kubectl(
                "delete", kind, name, "-n", self.home.namespace, "--wait=false", "--ignore-not-found", check=False
            )


def _told(rounds: Iterable[Round]) -> str:
    return "\n".join(f"{one.seconds:.1f} s\n{one.story}" for one in rounds)


def eventually(seen: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Poll until ``seen()``. Raises NotSeenError."""
    deadline = time.monotonic() + seconds
    while not seen():
        if time.monotonic() > deadline:
            raise NotSeenError(f"{what} never came")
        threading.Event().wait(0.5)
