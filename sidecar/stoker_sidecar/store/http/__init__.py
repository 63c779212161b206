"""HTTP transports of the object store: on the event loop, or through a proxy."""
