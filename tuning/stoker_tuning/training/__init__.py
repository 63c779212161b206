"""What a workload does, from what it reads and says: patterns, epochs, splits, rates and phases. Pure."""
