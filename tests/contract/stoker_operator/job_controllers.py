"""Pods as other projects' controllers make them for their kinds, with the fields that the tests need.

The added fields are from their code: Volcano and KubeRay of August 2026, Kubeflow's training operator 1.9.0, Kubeflow
Trainer 2.1.0, JobSet 0.8.0. The manifests next to this file are in these projects' schemas.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
MANIFESTS = Path(__file__).parent / "manifests"


def manifests(name: str) -> list[Object]:
    """Read a file of manifests."""
    return list(yaml.safe_load_all((MANIFESTS / f"{name}.yaml").read_text()))


def volcano(job: Object) -> Iterator[Object]:
    """Make the pods of a Volcano Job with the plug-ins env, svc and pytorch."""
    meta, spec = job["metadata"], job["spec"]
    total = sum(task["replicas"] for task in spec["tasks"])
    for task in spec["tasks"]:
        for index in range(task["replicas"]):
            pod = _pod(job, task["template"], f"{meta['name']}-{task['name']}-{index}")
            facts = {
                "volcano.sh/job-name": meta["name"],
                "volcano.sh/queue-name": spec["queue"],
                "volcano.sh/task-index": str(index),
                "volcano.sh/task-spec": task["name"],
            }
            pod["metadata"]["labels"] |= facts | {"volcano.sh/job-namespace": meta["namespace"]}
            pod["metadata"]["annotations"] |= facts | {
                "scheduling.k8s.io/group-name": f"{meta['name']}-{meta['uid']}",
                "volcano.sh/job-version": "0",
                "volcano.sh/template-uid": f"{meta['name']}-{task['name']}",
            }
            pod["spec"] |= {"schedulerName": spec["schedulerName"], "hostname": pod["metadata"]["name"]}
            pod["spec"]["subdomain"] = meta["name"]
            rank = index if task["name"] == "master" else index + 1
            variables = {"VC_TASK_INDEX": str(index), "MASTER_ADDR": f"{meta['name']}-master-0.{meta['name']}"}
            variables |= {"MASTER_PORT": "23456", "WORLD_SIZE": str(total), "RANK": str(rank)}
            _set_variables(pod, variables)
            for given in spec["volumes"]:
                source = {"persistentVolumeClaim": {"claimName": given["volumeClaimName"]}}
                _mount(pod, f"{meta['name']}-x7f2k9q1m3zd", source, given["mountPath"])
            if task["name"] == "worker":
                init = {"name": "wait-for-master", "image": "busybox:1.36.1", "command": ["sh", "-c", "true"]}
                pod["spec"].setdefault("initContainers", []).append(init)
            _mount(pod, f"{meta['name']}-svc", {"configMap": {"name": f"{meta['name']}-svc"}}, "/etc/volcano")
            yield pod


def pytorch_job(job: Object) -> Iterator[Object]:
    """Make the pods of a PyTorchJob."""
    meta, replicas = job["metadata"], job["spec"]["pytorchReplicaSpecs"]
    total = sum(one["replicas"] for one in replicas.values())
    for kind, given in replicas.items():
        for index in range(given["replicas"]):
            role = kind.lower()
            pod = _pod(job, given["template"], f"{meta['name']}-{role}-{index}")
            pod["metadata"]["labels"] |= {
                "training.kubeflow.org/job-name": meta["name"],
                "training.kubeflow.org/operator-name": "pytorchjob-controller",
                "training.kubeflow.org/replica-index": str(index),
                "training.kubeflow.org/replica-type": role,
            } | ({"training.kubeflow.org/job-role": "master"} if role == "master" else {})
            pod["spec"]["restartPolicy"] = given["restartPolicy"]
            master = f"{meta['name']}-master-0"
            rank = "0" if role == "master" else str(index + 1)
            variables = {"PYTHONUNBUFFERED": "1", "MASTER_PORT": "23456", "MASTER_ADDR": master}
            _set_variables(pod, variables | {"WORLD_SIZE": str(total), "RANK": rank, "PET_NNODES": str(total)})
            if role == "worker":
                command = ["sh", "-c", f"until nslookup {master}; do sleep 2; done"]
                pod["spec"]["initContainers"] = [{"name": "init-pytorch", "image": "alpine:3.10", "command": command}]
            yield pod


def train_job(runtime: Object, job: Object) -> Iterator[Object]:
    """Make the pods of a TrainJob: Trainer makes a JobSet of the runtime, JobSet a Job, and that Indexed pods."""
    meta, trainer = job["metadata"], job["spec"]["trainer"]
    for replicated in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        template = copy.deepcopy(replicated["template"]["spec"]["template"])
        for override in job["spec"]["podTemplateOverrides"]:
            if {"name": replicated["name"]} in override["targetJobs"]:
                _merge(template.setdefault("metadata", {}), override.get("metadata", {}))
        for container in template["spec"]["containers"]:
            container |= {"command": trainer["command"], "resources": trainer["resourcesPerNode"]}
        for index in range(trainer["numNodes"]):
            name = f"{meta['name']}-{replicated['name']}-0"
            metadata = {"name": name, "namespace": meta["namespace"], "uid": "j0"}
            pod = _pod({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}, template, "")
            pod["metadata"]["generateName"] = f"{name}-{index}-"
            del pod["metadata"]["name"]
            facts = {
                "jobset.sigs.k8s.io/job-index": "0",
                "jobset.sigs.k8s.io/jobset-name": meta["name"],
                "jobset.sigs.k8s.io/replicatedjob-name": replicated["name"],
                "batch.kubernetes.io/job-completion-index": str(index),
            }
            pod["metadata"]["labels"] |= facts | {"batch.kubernetes.io/job-name": name}
            pod["metadata"]["annotations"] |= facts
            pod["spec"] |= {"hostname": f"{name}-{index}", "subdomain": meta["name"], "restartPolicy": "Never"}
            variables = {"PET_NNODES": str(trainer["numNodes"]), "PET_NPROC_PER_NODE": "auto"}
            variables |= {"PET_MASTER_ADDR": f"{meta['name']}-node-0-0.{meta['name']}", "PET_MASTER_PORT": "29400"}
            _set_variables(pod, variables)
            yield pod


def ray_cluster(cluster: Object) -> Iterator[Object]:
    """Make the pods of a RayCluster."""
    spec = cluster["spec"]
    head = spec["headGroupSpec"]
    yield _ray_pod(cluster, head["template"], "head", "headgroup")
    for group in spec["workerGroupSpecs"]:
        for _ in range(group["replicas"]):
            yield _ray_pod(cluster, group["template"], "worker", group["groupName"])


def ray_job(job: Object) -> Iterator[Object]:
    """Make the pods of a RayJob's cluster."""
    meta = job["metadata"] | {"name": f"{job['metadata']['name']}-f7r2k"}
    yield from ray_cluster({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": meta} | _spec_of(job))


def batch_job(job: Object) -> Iterator[Object]:
    """Make the pods of a Job."""
    meta, spec = job["metadata"], job["spec"]
    for index in range(spec.get("completions", 1)):
        pod = _pod(job, spec["template"], f"{meta['name']}-{index}-x7f2k")
        pod["metadata"]["labels"] |= {"batch.kubernetes.io/job-name": meta["name"]}
        if spec.get("completionMode") == "Indexed":
            pod["metadata"]["annotations"] |= {"batch.kubernetes.io/job-completion-index": str(index)}
        yield pod


def job_set(given: Object) -> Iterator[Object]:
    """Make the pods of a JobSet, which makes Indexed Jobs."""
    meta = given["metadata"]
    for replicated in given["spec"]["replicatedJobs"]:
        named = meta | {"name": f"{meta['name']}-{replicated['name']}-0"}
        spec = {"completionMode": "Indexed", **replicated["template"]["spec"]}
        for pod in batch_job({"apiVersion": "batch/v1", "kind": "Job", "metadata": named, "spec": spec}):
            pod["metadata"]["labels"] |= {"jobset.sigs.k8s.io/jobset-name": meta["name"]}
            yield pod


def workflow(given: Object) -> Iterator[Object]:
    """Make the pods of an Argo Workflow's containers, with Argo's own containers, which mount the same volumes."""
    spec = given["spec"]
    for template in spec["templates"]:
        if "container" in template:
            init, wait = ({"name": name, "image": "quay.io/argoproj/argoexec:v3.7.3"} for name in ("init", "wait"))
            pods = {"initContainers": [init], "containers": [wait, template["container"] | {"name": "main"}]}
            pod = {"metadata": template.get("metadata", {}), "spec": pods | {"volumes": spec["volumes"]}}
            yield _pod(given, pod, f"resnet-x7f2k-{template['name']}")


def _spec_of(job: Object) -> Object:
    return {"spec": job["spec"]["rayClusterSpec"]}


def _ray_pod(cluster: Object, template: Object, kind: str, group: str) -> Object:
    name = cluster["metadata"]["name"]
    pod = _pod(cluster, template, "")
    del pod["metadata"]["name"]
    pod["metadata"]["generateName"] = f"{name}-{group}-{kind}-"
    pod["metadata"]["labels"] |= {
        "app.kubernetes.io/created-by": "kuberay-operator",
        "app.kubernetes.io/name": "kuberay",
        "ray.io/cluster": name,
        "ray.io/group": group,
        "ray.io/identifier": f"{name}-{kind}",
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": kind,
    }
    first = pod["spec"]["containers"][0]
    address = f"{name}-head-svc.{cluster['metadata']['namespace']}.svc.cluster.local"
    if kind == "worker":
        # A copy of the original container, without additions.
        wait = {"name": "wait-gcs-ready", "image": first["image"], "command": ["/bin/bash", "-c", "--"]}
        wait |= {"args": [f"ray health-check --address {address}:6379"], "env": list(first.get("env", []))}
        wait |= {"volumeMounts": list(first.get("volumeMounts", []))}
        pod["spec"]["initContainers"] = [wait | {"resources": {"limits": {"cpu": "200m", "memory": "256Mi"}}}]
    if kind == "head" and cluster["spec"].get("enableInTreeAutoscaling"):
        scaler = {"name": "autoscaler", "image": first["image"], "command": ["/bin/bash", "-c", "--"]}
        pod["spec"]["containers"].append(scaler)
        pod["spec"] |= {"serviceAccountName": name}
        _mount(pod, "ray-logs", {"emptyDir": {}}, "/tmp/ray")
    _mount_in(first, pod, "shared-mem", {"emptyDir": {"medium": "Memory"}}, "/dev/shm")
    first |= {"command": ["/bin/bash", "-c", "--"], "args": [f"ulimit -n 65536; ray start --address={address}:6379"]}
    _set_variables(pod, {"FQ_RAY_IP": address, "RAY_PORT": "6379", "RAY_CLUSTER_NAME": name})
    return pod


def _pod(owner: Object, template: Object, name: str) -> Object:
    made = copy.deepcopy(template)
    given, meta = made.get("metadata", {}), owner["metadata"]
    ref = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    metadata = {
        "name": name,
        "namespace": meta["namespace"],
        "labels": dict(given.get("labels", {})),
        "annotations": dict(given.get("annotations", {})),
        "ownerReferences": [ref | {"controller": True, "blockOwnerDeletion": True}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made["spec"]}


def _set_variables(pod: Object, variables: Mapping[str, str]) -> None:
    for container in pod["spec"]["containers"]:
        added = [{"name": name, "value": value} for name, value in variables.items()]
        container["env"] = [*container.get("env", []), *added]


def _mount(pod: Object, name: str, source: Object, path: str) -> None:
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])):
        _mount_in(container, pod, name, source, path)


def _mount_in(container: Object, pod: Object, name: str, source: Object, path: str) -> None:
    volumes = pod["spec"].setdefault("volumes", [])
    if name not in {volume["name"] for volume in volumes}:
        volumes.append({"name": name, **source})
    container["volumeMounts"] = [*container.get("volumeMounts", []), {"name": name, "mountPath": path}]


def _merge(base: Object, more: Object) -> None:
    for key, value in more.items():
        base[key] = {**base.get(key, {}), **value} if isinstance(value, dict) else value


MADE: Mapping[str, Callable[..., Iterator[Object]]] = {
    "volcano-job": volcano,
    "pytorch-job": pytorch_job,
    "train-job": train_job,
    "ray-cluster": ray_cluster,
    "ray-job": ray_job,
}


def pods_of(name: str) -> list[Object]:
    """Make the pods of a file of manifests."""
    return list(MADE[name](*manifests(name)))
