"""Entry points: they observe, ask the core, and act."""
