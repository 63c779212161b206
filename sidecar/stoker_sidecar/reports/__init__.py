"""The report listener: a process that hears what pods say of their training, each over a socket of its own."""
