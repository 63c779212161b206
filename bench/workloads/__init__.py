"""One module for each workload: measures, and gives back rows."""
