"""From a missing piece to its bytes on the disk."""
