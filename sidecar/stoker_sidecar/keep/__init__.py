"""The parts of the keeper, PID 1 of the sidecar. Standard library only: what must not die must not depend on much."""
