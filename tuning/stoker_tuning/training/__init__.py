"""The behavior of a workload, from its reads and reports: patterns, epochs, splits, rates and phases. Pure."""
