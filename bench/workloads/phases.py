"""Phases and epochs of a training as users see them each second, compared with its program's log.

A real sidecar watches a real program. The operator's own code polls it and rolls up its NodeCache. There is no
kube-apiserver between them: its proxy and its watches add some milliseconds.
"""

import json
import os
import random
import shutil
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench.apistub import LOOPBACK
from bench.environment import Environment
from bench.errors import BenchError
from bench.node import FiguresPort, Node
from bench.objects import write_object
from bench.report import Row
from bench.shown_figures import Look, PodOfOne, Truth, Watched, right, seen_from, stall_off, watch
from bench.sidecar import Switches
from bench.systems import STOKER
from stoker_api.datasets.dataset import MountMode
from stoker_api.jobs.sampling import SampleFilesSpec, Sampling
from stoker_operator.webhook.peer_authority import PeerSigner, renewed_authority

_MODES = (MountMode.NATIVE, MountMode.OVERLAY, MountMode.FUSE)
_RIGHT = "% of seconds in which it is right"
_PREFIX = "phases"
_PROGRAM = Path(__file__).parents[1] / "programs" / "epochs.py"
_SPLITS = {"train": 720, "val": 240, "test": 160}  # images of each
_CLASSES, _WIDTH = 10, 32  # pixels
# The program shuffles without a sampler, so no sampler has its order.
_ANOTHER_ORDER = Sampling(seed=7, batch=16, loaders=4, epochs=3, files=SampleFilesSpec(path="train")).text()
_TEN_MINUTES = 22  # epochs of 27 s
_UNSEEN = "SaveCheckpoint"  # reads do not show it
_SHOWN = {"kubectl get podfigures": "figures", "kubectl get trainingjob": "job"}


class Training(NamedTuple):
    """A run of the program: mount, reports, the sampling of its pod, and the number of epochs."""

    case: str
    mode: MountMode
    reports: bool
    sampling: str = ""
    epochs: int = 3


_LONG = (
    Training("overlay, reported, wrong order", MountMode.OVERLAY, reports=True, sampling=_ANOTHER_ORDER),
    Training("native, reported, 10 minutes", MountMode.NATIVE, reports=True, epochs=_TEN_MINUTES),
)


def trainings(*, long: bool) -> tuple[Training, ...]:
    """Return the runs: every mount, with and without reports, and the ``long`` ones."""
    words = {False: "unreported", True: "reported"}
    usual = tuple(Training(f"{mode}, {words[one]}", mode, one) for mode in _MODES for one in (False, True))
    return (*usual, *_LONG) if long else usual


def measure(env: Environment) -> Iterator[Row]:
    """Yield the share of seconds with a correct phase and epoch, by mount, report and display."""
    made = env.scratch / "made"
    _write_images(made, random.Random(5))
    for path in made.rglob("*"):
        if path.is_file():
            target = env.server.bucket / _PREFIX / path.relative_to(made)
            target.parent.mkdir(parents=True, exist_ok=True)
            write_object(target, path.read_bytes(), checksums=True)
    for training in trainings(long=env.scale.long_trainings):
        env.say(f"phases: {training.case}")
        truth, watched = _run(env, training)
        yield from _rows(training.case, truth, watched, reports=training.reports)
    shutil.rmtree(env.server.bucket / _PREFIX)


def _write_images(folder: Path, noise: random.Random) -> None:
    """Write bitmaps of noise, below a folder for each split and class."""
    for split, count in _SPLITS.items():
        for number in range(count):
            path = folder / split / f"class{number % _CLASSES}" / f"{number:05}.ppm"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"P6 %d %d 255\n" % (_WIDTH, _WIDTH) + noise.randbytes(3 * _WIDTH * _WIDTH))


def _run(env: Environment, training: Training) -> tuple[list[Truth], Watched]:
    """Run the program once, observed."""
    authority = renewed_authority(None, datetime.now(UTC))
    port = FiguresPort(_free_port(), PeerSigner(authority))
    switches = Switches(overlay=training.mode is not MountMode.FUSE, last_files=False, reports=training.reports)
    folder = env.scratch / "program"
    (folder / "checkpoints").mkdir(parents=True)
    with env.node(switches=switches, figures=port) as node:
        target = _mounted(node, training)
        environment = os.environ | {"EPOCHS": str(training.epochs)}
        if training.reports:
            environment["STOKER_REPORT_SOCKET"] = str(node.publish_report(target))
        cluster = PodOfOne(node, target.parent.parent.name, port.port, authority)
        command = [sys.executable, str(_PROGRAM), *seen_from(folder, target)]
        watched = watch(cluster, command, environment)
    if watched.code:
        raise BenchError(f"phases: the program of {training.case} ended with code {watched.code}")
    truth = [_truth(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    shutil.rmtree(folder)
    return truth, watched


def _mounted(node: Node, training: Training) -> Path:
    volume = node.list_source(_PREFIX)
    node.offer(volume)
    target = node.publish(volume, training.sampling)
    if training.mode is MountMode.NATIVE:
        node.warm(volume)
    node.wait_mode(target, training.mode)
    return target


def _truth(line: str) -> Truth:
    known = json.loads(line)
    return Truth(known["t"], known["truth"]["phase"], known["truth"]["epoch"], known.get("stall"))


def _rows(case: str, truth: list[Truth], watched: Watched, *, reports: bool) -> Iterator[Row]:
    def phase(before: Truth, look: Look) -> bool | None:
        return None if before.phase == _UNSEEN and not reports else before.phase == look.phase

    def epoch(before: Truth, look: Look) -> bool | None:
        return None if before.epoch is None else before.epoch == look.epoch

    for where, field in _SHOWN.items():
        looks: list[Look] = getattr(watched, field)
        note = f"{len(looks)} looks, by {where}"
        yield Row("phases", f"phase, {case}, {where}", STOKER, _RIGHT, (right(truth, looks, phase),), note=note)
        yield Row("phases", f"epoch, {case}, {where}", STOKER, _RIGHT, (right(truth, looks, epoch),), note=note)
    oldest = max((look.age for look in watched.figures), default=0.0)
    yield Row("phases", case, STOKER, "s of the oldest figures", (oldest,))
    off = stall_off(truth, watched.figures)
    if off is not None:
        yield Row("phases", f"stall, {case}", STOKER, "points of stall", (off,))


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind((LOOPBACK, 0))
        return int(listening.getsockname()[1])
