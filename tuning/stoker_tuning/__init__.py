"""Recognizes the behavior of training jobs and recommends settings: pure decisions, with no I/O, clock or client."""
