"""One version of a dataset on a disk: its manifest, its names, its layout."""
