"""Accesses of pods, and the workloads they belong to."""
