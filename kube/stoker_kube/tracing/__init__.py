"""Traces of pods, from the gate to the first byte, for an OTLP collector. Off without an endpoint."""
