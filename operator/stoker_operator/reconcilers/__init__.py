"""Level-triggered loops: look at the mirror, decide in the core, write the differences."""
