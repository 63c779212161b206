"""PyTorch's DataLoader with samplers and reports of stoker-client, killed in the middle of an epoch and resumed.

Run by Debian's Python, which has PyTorch, with stoker_client on its path. The argument is the total number of batches
to train on. Prints as JSON the samples of each epoch in training order.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from stoker_client import GroupShuffleSampler, TrainingReport

_BATCH, _EPOCHS = 16, 3


class Numbers(Dataset):
    """Each sample is its own number."""

    def __len__(self) -> int:
        return 500

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(index)


def main() -> None:
    """Train until the end, or until a stop signal. Continue from the checkpoint, if there is one."""
    stop, checkpoint = int(sys.argv[1]), Path("checkpoint.json")
    sampler = GroupShuffleSampler(Numbers(), 8, reservoir=16, seed=5)
    state: dict[str, Any] = {"epoch": 0, "step": 0, "seen": [[], [], []]}
    if checkpoint.exists():
        state = json.loads(checkpoint.read_text())
    before = 0
    if "sampler" in state:
        sampler.load_state_dict(state["sampler"])
        before = state["sampler"]["position"]
    report = TrainingReport(framework="pytorch")
    report.start_at(state["step"])
    loader = DataLoader(Numbers(), batch_size=_BATCH, sampler=sampler, num_workers=2)
    for epoch in range(state["epoch"], _EPOCHS):
        sampler.set_epoch(epoch)
        report.say(epoch=epoch, epochs=_EPOCHS)
        for numbers in report.loader(loader, files={"layout": "Shards", "path": "numbers/*"}):
            state["seen"][epoch] += numbers.tolist()
            state["step"] += 1
            before += len(numbers)
            report.say(loss=torch.ones(1, requires_grad=True).sum() / state["step"])
            if state["step"] == stop:
                # Its workers are ahead: only trained batches count.
                checkpoint.write_text(json.dumps({**state, "epoch": epoch, "sampler": sampler.state_dict(before)}))
                return
        before = 0
    report.flush()
    print(json.dumps(state["seen"]))


if __name__ == "__main__":
    main()
