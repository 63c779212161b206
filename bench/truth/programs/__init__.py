"""Programs that train and serve as people's do, and log what they do. They run under other Pythons."""

from pathlib import Path

FOLDER = Path(__file__).parent
