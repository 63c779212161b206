"""PyTorch training programs under `stoker profile`: its predictions, and the durations measured afterwards."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from stoker_cli.profile.profiled_command import ProfiledCommand
from stoker_tuning.profiling.epoch_split import RunFigures

_CLIENT = Path(__file__).resolve().parents[1] / "client"
_PROGRAM = Path(__file__).parent / "programs" / "profiled.py"
_PYTHON = "/usr/bin/python3"  # has Debian's PyTorch: tools/install-clients.sh installs it


@dataclass(frozen=True)
class Trainer:
    """The settings of programs/profiled.py: seconds of a ``step``, and seconds to ``decode`` an item."""

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
        return [_PYTHON, str(_PROGRAM), data, *said]

    @staticmethod
    def environment() -> dict[str, str]:
        """Return its environment variables in addition to those of this process."""
        return {"PYTHONPATH": str(_CLIENT)}


def run_stoker(environment: Mapping[str, str], *words: str) -> str:
    """Run `stoker` with these arguments and variables. Return its output. Raises BenchError."""
    command = [sys.executable, "-c", "from stoker_cli.entry import main; main()", *words]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"stoker {words[0]} ended with code {done.returncode}: {done.stderr[-1000:]}")
    return done.stdout


def profiled(url: str, trainer: Trainer, environment: Mapping[str, str], scratch: Path) -> dict[str, Any]:
    """Return the output of `stoker profile` for it. Raises BenchError."""
    words = ["profile", url, "--workers", str(trainer.workers), "--scratch", str(scratch), "-o", "json"]
    variables = {**os.environ, **environment, **trainer.environment()}
    found: dict[str, Any] = json.loads(run_stoker(variables, *words, "--", *trainer.command("{data}")))
    return found


def trained(trainer: Trainer, data: Path, scratch: Path) -> RunFigures:
    """Run it unchanged on its data. Return the seconds of its first epoch. Raises CliError."""
    return ProfiledCommand(trainer.command(str(data)), trainer.environment()).run(scratch)
