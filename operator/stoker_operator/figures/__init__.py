"""The API group figures.stoker.dev: it collects the figures of pods from their nodes, and serves them by namespace."""
