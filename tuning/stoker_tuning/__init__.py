"""What a training job does, and what follows from it: pure decisions, with no I/O, no clock and no client."""
