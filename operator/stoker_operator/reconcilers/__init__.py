"""Level-triggered loops: read the mirror, decide in the core, write the differences."""
