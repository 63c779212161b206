"""Programs that train with PyTorch beside `stoker profile`: what it predicts of them, and what they then take."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.truth.programs import DEBIANS_PYTHON, FOLDER
from stoker_cli.profiled_command import ProfiledCommand
from stoker_tuning.profiling.epoch_split import RunFigures

_CLIENT = Path(__file__).resolve().parents[1] / "client"


@dataclass(frozen=True)
class Trainer:
    """bench/truth/programs/profiled.py with these settings: seconds of a ``step``, and ``decode`` of an item."""

    name: str
    workers: int = 2
    batch: int = 16
    step: float = 0.05
    decode: float = 0.002
    spin: bool = False
    ratio: float = 1.0
    epochs: int = 1

    def command(self, data: str) -> list[str]:
        """Return its command line."""
        values = {"workers": self.workers, "batch": self.batch, "step": self.step, "decode": self.decode}
        values |= {"spin": int(self.spin), "ratio": self.ratio, "epochs": self.epochs}
        said = [f"{name}={value}" for name, value in values.items()]
        return [str(DEBIANS_PYTHON), str(FOLDER / "profiled.py"), data, *said]

    @staticmethod
    def environment() -> dict[str, str]:
        """Return what it needs beside this process's environment."""
        return {"PYTHONPATH": str(_CLIENT)}


def profiled(url: str, trainer: Trainer, environment: Mapping[str, str], scratch: Path) -> dict[str, Any]:
    """Return what `stoker profile` says of it. Raises BenchError."""
    words = ["profile", url, "--workers", str(trainer.workers), "--scratch", str(scratch), "-o", "json"]
    program = [sys.executable, "-c", "from stoker_cli.entry import main; main()", *words]
    done = subprocess.run(
        [*program, "--", *trainer.command("{data}")],
        env={**os.environ, **environment, **trainer.environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchError(f"stoker profile ended with code {done.returncode}: {done.stderr[-1000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def trained(trainer: Trainer, data: Path, scratch: Path) -> RunFigures:
    """Run it on its data, as it is; return what its first epoch takes. Raises CliError."""
    return ProfiledCommand(trainer.command(str(data)), trainer.environment()).run(scratch)
