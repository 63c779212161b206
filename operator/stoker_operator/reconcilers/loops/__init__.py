"""The loops of reconcilers: triggers, keyed work and turns."""
