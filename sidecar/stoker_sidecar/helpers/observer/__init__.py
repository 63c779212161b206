"""The observer: detects opened files on native and overlay mounts, within a CPU budget."""
