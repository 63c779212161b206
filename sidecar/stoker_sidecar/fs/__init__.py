"""The read side: the file system over a manifest, its FUSE shell and process, and the mounts that pods see."""
