"""Programs that train and serve as people's do, and log what they do; and the Pythons that have their libraries."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parent
# tools/install-clients.sh brings them: Debian's PyTorch, JAX beside Stoker, Hugging Face's Trainer beside PyTorch.
DEBIANS_PYTHON = Path("/usr/bin/python3")
OUR_PYTHON = Path(sys.executable)
TRAINERS_PYTHON = Path(sys.prefix) / "trainer" / "bin" / "python"
