"""Model files as PyTorch writes them: checkpoints.py FOLDER. Run by Debian's Python, which has PyTorch."""

import sys
from pathlib import Path

import torch


def main() -> None:
    """Write weights, an optimizer's state, a checkpoint in both formats, and a TorchScript module."""
    folder = Path(sys.argv[1])
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(4, 8)).sum().backward()
    optimizer.step()
    checkpoint = {"epoch": 3, "model_state_dict": model.state_dict(), "optimizer_state_dict": optimizer.state_dict()}
    torch.save(model.state_dict(), folder / "weights")
    torch.save(optimizer.state_dict(), folder / "optimizer_state")
    torch.save(checkpoint, folder / "both")
    torch.save(checkpoint, folder / "legacy", _use_new_zipfile_serialization=False)
    torch.save(model.state_dict(), folder / "legacy_weights", _use_new_zipfile_serialization=False)
    torch.jit.script(model).save(str(folder / "script"))


if __name__ == "__main__":
    main()
