"""API models of TuningProfile."""
