"""The command line of the demo: up, shell, down."""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from string import Template

from e2e.cluster import Cluster, HarnessError
from examples.demo import place as places
from examples.demo.place import EXISTING, ROOT, DemoError, Place
from examples.demo.story import PodStory, lines, report_of
from examples.demo.upload import upload
from examples.digits import dataset

NAMESPACE = "stoker-demo"
SYSTEM = "stoker-system"
BUCKET = "stoker-demo"
# Each wait is far longer than what it waits for takes here, so that a slow machine is slow and not broken.
PATIENCE = "300s"
START = time.monotonic()


def say(text: str) -> None:
    """Print one step of the story, with the time since the beginning."""
    print(f"\033[1m[{time.monotonic() - START:5.0f}s]\033[0m {text}", flush=True)


def substitutions(place: Place) -> dict[str, str]:
    """Return what ${...} stands for in examples/digits/*.yaml."""
    return {
        "NAMESPACE": NAMESPACE,
        "BUCKET": BUCKET,
        "S3_ENDPOINT": place.store.endpoint,
        "REGION": place.store.region,
        "ACCESS_KEY": place.store.access_key,
        "SECRET_KEY": place.store.secret_key,
        "DEMO_IMAGE": place.training.name,
        "PULL_POLICY": place.training.pull_policy,
    }


def apply(place: Place, file: str) -> None:
    """Run kubectl apply on one of the example's manifests."""
    text = Template((ROOT / "examples/digits" / file).read_text(encoding="utf-8"))
    place.run("kubectl", "apply", "-f", "-", stdin=text.substitute(substitutions(place)))


def install(place: Place) -> None:
    """Install the chart with helm, or upgrade it when it is there."""
    image = place.stoker
    values = {f"{part}.podAnnotations.image-digest": image.digest for part in ("operator", "sidecar") if image.digest}
    values |= {"image.repository": image.repository, "image.tag": image.tag, "image.pullPolicy": image.pull_policy}
    if image.pull_policy == "Never":  # a cluster of our own, whose kubelets leave 1 % of this machine's disk free
        values["sidecar.floor.bytes"] = "2%"
    sets = [word for key, value in values.items() for word in ("--set-string", f"{key}={value}")]
    chart = str(ROOT / "charts/stoker")
    place.run("helm", "upgrade", "--install", "stoker", chart, "-n", SYSTEM, "--create-namespace", "--wait", *sets)


def forget_last_run(place: Place) -> None:
    """Remove the finished Jobs of an earlier run, so that this run trains again."""
    kinds = ("job/digits-train", "trainingjob/digits-ddp")
    place.run("kubectl", "-n", NAMESPACE, "delete", *kinds, "--ignore-not-found", "--wait")


def fill_bucket(place: Place) -> None:
    """Put the digits into the bucket, as PNG files and as shards."""
    with tempfile.TemporaryDirectory() as folder:
        dataset.write(Path(folder))
        asyncio.run(upload(place.store, BUCKET, Path(folder), say))


def finish(place: Place) -> None:
    """Wait for the ends of both jobs."""
    wait = ("kubectl", "-n", NAMESPACE, "wait", f"--timeout={PATIENCE}")
    place.run(*wait, "--for=condition=complete", "job/digits-train")
    place.run(*wait, "--for=jsonpath={.status.phase}=Succeeded", "trainingjob/digits-ddp")


def stories(place: Place) -> list[PodStory]:
    """Return every training pod's own story."""
    names = place.run("kubectl", "-n", NAMESPACE, "get", "pods", "-l", "stoker.dev/managed", "-o", "name").split()
    pods = sorted(name.removeprefix("pod/") for name in names)
    return [
        PodStory(
            json.loads(place.run("stoker", "-n", NAMESPACE, "why", pod, "-o", "json")),
            report_of(place.run("kubectl", "-n", NAMESPACE, "logs", pod)),
        )
        for pod in pods
    ]


def up(options: argparse.Namespace) -> None:
    """Tell the whole story: fill the bucket, install Stoker, train and show what happened."""
    say("a real Kubernetes" if options.cluster != EXISTING else "the cluster of the current kubeconfig")
    place = places.existing() if options.cluster == EXISTING else places.own(options.cluster, options.nodes, say)
    say("the handwritten digits go into a bucket")
    fill_bucket(place)
    say(f"helm install stoker charts/stoker -n {SYSTEM}")
    install(place)
    place.run("kubectl", "apply", "-f", "-", stdin=json.dumps(namespace()))
    forget_last_run(place)
    say("kubectl apply: two Datasets, an annotated Job and a TrainingJob; the pods are held until the data is warm")
    for file in ("dataset.yaml", "job.yaml", "trainingjob.yaml"):
        apply(place, file)
    for name in ("digits", "digits-shards"):
        place.run("stoker", "-n", NAMESPACE, "status", name, "--watch", "--timeout", PATIENCE, show=True)
    finish(place)
    say("what happened, and why")
    print("\n".join(lines(stories(place))), flush=True)
    place.run("kubectl", "-n", NAMESPACE, "get", "datasets,trainingjobs", "-o", "wide", show=True)
    place.run("stoker", "nodes", show=True)
    say("done; `make demo-shell` lets you play with it, `make demo-down` removes every trace")


def namespace() -> dict[str, object]:
    """Return the manifest of the demo's namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def shell(options: argparse.Namespace) -> None:
    """Open a shell in which kubectl, helm and stoker talk to the cluster."""
    path = f"{places.folder_of_programs()}:{os.environ['PATH']}"
    environment = {"PATH": path}
    if options.cluster != EXISTING:
        own = Cluster(options.cluster).environment()
        environment = {**own, "PATH": f"{places.folder_of_programs()}:{own['PATH']}"}
    say(f"kubectl, helm and stoker talk to {options.cluster}; try: kubectl -n {NAMESPACE} get datasets; exit leaves")
    sys.exit(
        subprocess.run(
            [os.environ.get("SHELL", "/bin/bash")], env={**os.environ, **environment}, check=False
        ).returncode
    )


def down(options: argparse.Namespace) -> None:
    """Remove every trace of the demo."""
    if options.cluster != EXISTING:
        Cluster(options.cluster, say).down()
    else:
        environment = {**os.environ}
        for command in (
            ("kubectl", "delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait"),
            ("helm", "uninstall", "stoker", "-n", SYSTEM, "--ignore-not-found", "--wait"),
            ("kubectl", "delete", "namespace", SYSTEM, "--ignore-not-found", "--wait"),
            ("kubectl", "delete", "-f", str(ROOT / "crds"), "--ignore-not-found"),
        ):
            subprocess.run(command, env=environment, check=True)
    say(f"{options.cluster}: no trace is left")


def parser() -> argparse.ArgumentParser:
    """Make the parser of the commands up, shell and down."""
    top = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="CMD")
    for name, function in (("up", up), ("shell", shell), ("down", down)):
        command = commands.add_parser(name, help=function.__doc__)
        command.add_argument("--cluster", default="demo", help="a name, or `existing` for the current kubeconfig's")
        command.add_argument("--nodes", type=int, default=2)
        command.set_defaults(run=function)
    return top


def main() -> int:
    """Run one command; what goes wrong is a sentence."""
    options = parser().parse_args()
    try:
        options.run(options)
    except (DemoError, HarnessError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
