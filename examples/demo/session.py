"""What every step does: print, run a command, apply a manifest, wait, follow a log."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from string import Template
from typing import Any

import yaml

from e2e.cluster.errors import NotReadyError
from e2e.cluster.processes import wait_for
from examples.demo.figures import Report, report_of
from examples.demo.place import ROOT, DemoError, Place

NAMESPACE = "stoker-demo"
SYSTEM = "stoker-system"
BUCKET = "stoker-demo"
# Far longer than any wait here takes, so that a slow machine is not reported as broken.
PATIENCE = 300
START = time.monotonic()
Object = dict[str, Any]


def say(text: str) -> None:
    """Print one line of the demo, with the time since its start."""
    print(f"\033[1m[{time.monotonic() - START:5.0f}s]\033[0m {text}", flush=True)


def show(text: str) -> None:
    """Print output of a command, indented."""
    print("\n".join(f"    {line}" for line in text.rstrip().splitlines()), flush=True)


class Session:
    """The demo in one cluster."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Run kubectl in the demo's namespace. Raises DemoError."""
        return self.place.run("kubectl", "-n", NAMESPACE, *words, stdin=stdin)

    def stoker(self, *words: str) -> str:
        """Print a command of the CLI and return its output. Raises DemoError."""
        print(f"  $ stoker -n {NAMESPACE} {' '.join(words)}", flush=True)
        return self.place.run("stoker", "-n", NAMESPACE, *words)

    def manifest(self, file: str, name: str) -> Object:
        """Return a manifest of examples/photos under another name."""
        text = (ROOT / "examples/photos" / file).read_text(encoding="utf-8")
        values = {
            "BUCKET": BUCKET,
            "S3_ENDPOINT": self.place.store.endpoint,
            "REGION": self.place.store.region,
            "DEMO_IMAGE": self.place.training.name,
            "PULL_POLICY": self.place.training.pull_policy,
        }
        item: Object = yaml.safe_load(Template(text).substitute(values))
        item["metadata"]["name"] = name
        return item

    def apply(self, *items: Object) -> None:
        """Run kubectl apply. Raises DemoError."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    def dataset(self, name: str, *, uri: str = "", **spec: Any) -> None:
        """Apply a Dataset of the photos, with further fields of its spec."""
        item = self.manifest("dataset.yaml", name)
        item["spec"] |= spec
        item["spec"]["source"] |= {"uri": uri} if uri else {}
        self.apply(item)

    def job(self, name: str, dataset: str, program: str, annotations: Mapping[str, str]) -> None:
        """Apply a Job that runs a program of examples/photos on a Dataset."""
        item = self.manifest("job.yaml", name)
        template = item["spec"]["template"]
        template["metadata"]["annotations"] = {"stoker.dev/datasets": f"{dataset}:/data", **annotations}
        template["spec"]["containers"][0]["command"][1] = f"/code/{program}"
        self.apply(item)

    def get(self, kind: str, name: str) -> Object:
        """Return an object, or empty if it does not exist."""
        text = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        return dict(json.loads(text)) if text.strip() else {}

    def pods(self, job: str) -> list[Object]:
        """List the pods of a Job that are not about to be deleted, newest first."""
        items = json.loads(self.kubectl("get", "pods", "-l", f"job-name={job}", "-o", "json"))["items"]
        alive = [item for item in items if "deletionTimestamp" not in item["metadata"]]
        return sorted(alive, key=lambda item: str(item["metadata"]["creationTimestamp"]), reverse=True)

    def phase(self, job: str) -> str:
        """Return the phase of the newest pod of a Job."""
        return next((str(pod["status"].get("phase")) for pod in self.pods(job)), "")

    def node(self, job: str) -> str:
        """Return the node of the newest pod of a Job when it runs, or empty."""
        newest: Object = next(iter(self.pods(job)), {"status": {}})
        return str(newest["spec"]["nodeName"]) if newest["status"].get("phase") == "Running" else ""

    def until(self, what: str, seen: Callable[[], Any]) -> None:
        """Wait for something. Raises DemoError with the command that shows why it did not come."""
        try:
            wait_for(what, lambda: bool(seen()), PATIENCE, poll_seconds=0.5)
        except NotReadyError as error:
            look = f"kubectl -n {NAMESPACE} get pods,datasets,events"
            raise DemoError(f"{error}. See why in `make demo-shell`: {look}; stoker doctor") from error

    def started(self, job: str) -> None:
        """Wait until a Job's pod has started."""
        self.until(f"the pod of job/{job} to start", lambda: self.phase(job) in ("Running", "Succeeded", "Failed"))

    def follow(self, job: str) -> Report:
        """Print the log of a Job while it runs. Return its report. Raises DemoError."""
        self.started(job)
        words = ["kubectl", "-n", NAMESPACE, "logs", "--follow", f"job/{job}"]
        environment = {**os.environ, **self.place.environment}
        lines = []
        with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None, "made with a pipe"
            for line in process.stdout:
                lines.append(line)
                if not line.startswith("{"):
                    show(line)
        return self._report(job, "".join(lines))

    def report(self, job: str) -> Report:
        """Return the report of a Job that has ended. Raises DemoError."""
        return self._report(job, self.kubectl("logs", f"job/{job}", "--tail=100"))

    def _report(self, job: str, log: str) -> Report:
        try:
            return report_of(log)
        except ValueError as error:
            look = f"kubectl -n {NAMESPACE} describe pods -l job-name={job}"
            raise DemoError(f"job/{job}: {error}. See why in `make demo-shell`: {look}") from error
