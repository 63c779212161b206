"""Unusual objects of Stoker's kinds, mostly accepted by the API server: odd texts, large numbers."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from stoker_api import names

Object = dict[str, Any]
_PLANES = [
    (0x20, 0x7E),
    (0xA0, 0xD7FF),
    (0xE000, 0xFFFD),
    *((plane << 16, (plane << 16) + 0xFFFF) for plane in range(1, 17)),
]
_NUMBERS = [0, 1, -1, 2**31 - 1, 2**31, 2**53, 2**63 - 1, -(2**63), 10**18, 1000, 10_000]
_EXPRESSIONS = [
    {"key": "test", "operator": "Exists"},
    {"key": "none", "operator": "NotIn", "values": ["", "x" * 63]},
    {"key": "test", "operator": "Gt", "values": ["no number"]},
]
_SPREADS = [
    {"topologyKey": "test"},
    {"topologyKey": "none", "maxSkew": 1000, "whenUnsatisfiable": "ScheduleAnyway"},
    {"topologyKey": "", "maxSkew": 0},
]
_QUANTITIES = [
    "0",
    "1",
    "1Gi",
    "1024Pi",
    "1025Pi",
    "10000P",
    "0.000000001Ki",
    "99999999999999999999P",
    "1e3",
    "-1",
    "Gi",
]
_DURATIONS = ["0s", "1ms", "10s", "1h", "8760h", "8761h", "99999999h", "1h1h1h", "0.1ms", "10", "999999999999s"]
_ENDPOINTS = [
    "http://127.0.0.1:1",
    "http://[::1]:1",
    "https://a-b.invalid:65535",
    "http://a_b:80",
    "http://-",
    "https://xn--e1afmkfd.invalid/",
    "http://1.2.3.4.5.6",
    "http://" + "a" * 64,
]


class Fuzzer:
    """Makes objects, the same ones for the same ``seed``. ``home`` is the namespace of referenced objects."""

    def __init__(self, seed: int, home: str) -> None:
        self._random = random.Random(seed)
        self._home = home

    def text(self, most: int = 40) -> str:
        """Return a text from all planes of Unicode, without surrogates and NUL, which JSON cannot contain."""
        size = self._random.choice([0, 1, 3, most // 2, most])
        return "".join(chr(self._random.randint(*self._random.choice(_PLANES))) for _ in range(size))

    def dataset(self, name: str, selector: dict[str, str]) -> Object:
        """Return a Dataset that selects nodes by ``selector``, mostly with fields that the API server accepts."""
        source = self._some(
            endpoint=lambda: self._pick(_ENDPOINTS),
            region=lambda: self._pick(["eu-west-1", "-", "a" * 63, "a" * 64, self.text(9), "mars-1"]),
            addressingStyle=lambda: self._pick(["Auto", "Path", "Virtual", "Odd"], rarely_last=True),
            credentials=lambda: self._pick([{"secretRef": {"name": "keys"}}, {"serviceAccount": "team"}, {}, {"a": 1}]),
            include=self._patterns,
            exclude=self._patterns,
        )
        spec = self._some(
            warm=lambda: self._some(
                policy=lambda: self._pick(["Eager", "OnDemand", "Manual", "Never"], rarely_last=True),
                priority=lambda: self._pick([0, 1000, -1000, *_NUMBERS]),
                bandwidthLimit=lambda: self._pick(_QUANTITIES),
                paused=lambda: self._pick([True, False, "yes"], rarely_last=True),
            ),
            refresh=lambda: self._some(
                policy=lambda: self._pick(["Pinned", "Follow"]), interval=lambda: self._pick(_DURATIONS)
            ),
            scheduling=lambda: self._some(
                mode=lambda: self._pick(["Prefer", "Require", "None"]), maxWait=lambda: self._pick(_DURATIONS)
            ),
            tuning=self._tuning,
            access=lambda: {"namespaces": [self._pick(["*", "team-*", "a", self.text(5)]) for _ in range(3)]},
        )
        cache = self._some(
            replicas=lambda: self._pick(["all", 1, 10_000, "50%", "1%", *_NUMBERS]),
            matchExpressions=lambda: [self._pick(_EXPRESSIONS, rarely_last=True)],
            tolerations=lambda: self._pick([[], [{"operator": "Exists"}], [{"key": self.text(5)}]], rarely_last=True),
            topologySpread=lambda: self._pick(_SPREADS, rarely_last=True),
            quota=lambda: self._pick(_QUANTITIES),
            pinned=lambda: True,
        )
        wanted = selector | ({self.text(6): self.text(6)} if self._random.random() < 0.1 else {})
        annotations = self._some(
            **{names.ANNOTATION_REFRESH_REQUESTED: self.text, names.ANNOTATION_WARM_REQUESTED: self.text}
        )
        body = {"source": {"uri": self._uri()} | source, "cache": {"nodeSelector": wanted} | cache} | spec
        return {"metadata": {"name": name, "namespace": self._home, "annotations": annotations}, "spec": body}

    def _tuning(self) -> Object:
        return self._some(
            enabled=lambda: self._pick([True, False, "yes"], rarely_last=True),
            profile=lambda: self._pick(["fast", "a" * 253, "A_B", self.text(5)]),
            template=lambda: self._pick(["data_pipeline", "nix", "", self.text(5)]),
            level=lambda: self._pick(["Basic", "Maximum", "Most"], rarely_last=True),
        )

    def training_job(self, name: str, datasets: Sequence[str]) -> Object:
        """Return a TrainingJob with an unusual template."""
        spec = self._some(
            framework=lambda: self._pick(["pytorch", "tensorflow", "jax", "none"]),
            workers=lambda: self._pick([1, 2, 3, 5, 0, 1001, *_NUMBERS]),
            backoffLimit=lambda: self._pick([0, 3, *_NUMBERS]),
            ttlSecondsAfterFinished=lambda: self._pick([0, 60, *_NUMBERS]),
            suspend=lambda: self._pick([True, False]),
            tuning=self._tuning,
            sampling=lambda: self._some(seed=lambda: self._pick(_NUMBERS), epochs=lambda: self._pick(_NUMBERS)),
            scheduling=lambda: self._some(
                mode=lambda: self._pick(["Prefer", "Require", "None"]), maxWait=lambda: self._pick(_DURATIONS)
            ),
            datasets=lambda: [{"name": self._pick(datasets), "mountPath": self._pick(["/data", "/" + self.text(5)])}],
        )
        template = {
            "metadata": self._some(labels=self._odd, annotations=self._odd, name=self._odd),
            "spec": self._pod(),
        }
        return {"metadata": {"name": name, "namespace": self._home}, "spec": spec | {"template": template}}

    def pod(self, name: str, datasets: Sequence[str]) -> Object:
        """Return a pod behind Stoker's gate with odd annotations."""
        wanted = [
            f"{self._pick(datasets)}:/data",
            self.text(60),
            ",".join(f"{self._pick(datasets)}:/d{n}" for n in range(self._pick([2, 20, 21, 400]))),
            f"{self.text(10)}:/data",
            f"{self._pick(datasets)}:/data/../{self.text(3)}",
            "",
            ",:/,",
        ]
        annotations = {names.ANNOTATION_DATASETS: self._pick(wanted)} | self._some(
            **{
                names.ANNOTATION_SCHEDULING: lambda: self._pick(["Prefer", "Require", self.text(8)]),
                names.ANNOTATION_MAX_WAIT: lambda: self._pick([*_DURATIONS, self.text(8)]),
                names.ANNOTATION_GANG_SIZE: lambda: self._pick(["3", "-1", "9" * 30, "\u0663", self.text(5)]),
                names.ANNOTATION_RELEASED: lambda: self._pick(["{", "[]", '{"nodes": 1}', self.text(20)]),
                names.ANNOTATION_CONTAINERS: lambda: self.text(10),
            }
        )
        labels = {names.LABEL_MANAGED: "true"} | self._some(**{names.LABEL_GANG: lambda: self._pick(["g1", "g2", ""])})
        spec = {"containers": [{"name": "main", "image": "none"}], "schedulingGates": [{"name": names.GATE_WARM}]}
        meta = {"name": name, "namespace": self._home, "annotations": annotations, "labels": labels}
        return {"metadata": meta, "spec": spec}

    def _uri(self) -> str:
        return self._random.choice(
            [
                *["s3://bucket/"] * 4,
                *[f"s3://bucket/{self.text()}/"] * 4,
                f"s3://bucket/{self.text()}/",
                f"file:///{self.text()}",
                f"s3://bucket/{'a' * 1150}",
                "s3://a..b/",
                "s3://" + "a" * 63,
                f"s3://{self.text(5)}/",
                "s3://bucket/%00%ff//../x",
                self.text(),
            ]
        )

    def _patterns(self) -> list[str]:
        one = self._pick(["*.png", "**/" * 80 + "*", "*a" * 100, "[", "[z-a]", "***", self.text(100), "/a", "x" * 257])
        return [one] * self._pick([1, 2, 50, 51])

    def _pod(self) -> Object:
        env = self._pick([[], {"A": "b"}, [None], [{"name": "A", "value": self.text()}], "x", [[]], [{"name": 1}]])
        container = self._pick(
            [{"name": "c", "image": "none", "env": env}] * 4 + [{}, {"resources": {"limits": self._odd()}}]
        )
        return {"containers": [container] * self._pick([1, 1, 2, 33])} | self._some(
            initContainers=self._odd,
            volumes=self._odd,
            nodeSelector=self._odd,
            affinity=self._odd,
            restartPolicy=self._odd,
        )

    def _odd(self) -> Any:
        """Return a value of any type."""
        return self._pick(
            ["x", 1, -1, True, [], {}, [1], {"a": "b"}, [[]], {"a": [None]}, self.text(), {self.text(5): 1}]
        )

    def _pick(self, choices: Sequence[Any], *, rarely_last: bool = False) -> Any:
        some = choices[:-1] if rarely_last and self._random.random() < 0.9 else choices
        return self._random.choice(some)

    def _some(self, **fields: Callable[[], Any]) -> Object:
        """Return an eighth of the fields. With more, a refusal of one would nearly always exclude the rest."""
        return {name: make() for name, make in fields.items() if self._random.random() < 0.125}
