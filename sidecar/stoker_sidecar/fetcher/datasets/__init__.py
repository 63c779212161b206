"""One Dataset on this node: its versions, listing and loop."""
