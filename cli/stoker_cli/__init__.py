"""The command line `stoker`, also available as `kubectl stoker`."""
