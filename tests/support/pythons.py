"""The Python interpreters with other libraries for tests. tools/install-clients.sh installs those libraries."""

import sys
from pathlib import Path

DEBIANS_PYTHON = Path("/usr/bin/python3")  # has Debian's PyTorch
OUR_PYTHON = Path(sys.executable)  # has JAX
TRAINERS_PYTHON = Path(sys.prefix) / "trainer" / "bin" / "python"  # has Hugging Face's Trainer
