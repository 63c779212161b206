"""The observer: reads which files of native and overlay mounts are opened, within a budget of CPU."""
