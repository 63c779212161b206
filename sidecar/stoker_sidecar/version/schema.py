"""The SQLite schema of a manifest file, shared by its reader and its builder."""

# user_version of the file; a reader refuses another.
FORMAT = 1

ENTRY_COLUMNS = "ino, parent, name, is_dir, size, mtime_ns, etag, version_id"

CREATE = """
CREATE TABLE info (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE entry (
  ino INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name BLOB NOT NULL, is_dir INTEGER NOT NULL,
  size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, etag TEXT NOT NULL, version_id TEXT NOT NULL
);
"""

# Made after the rows: half the time of keeping it up to date, and a denser file.
CREATE_INDEX = "CREATE UNIQUE INDEX by_name ON entry (parent, name)"

# The listing as it comes, in any order; sorted by its primary key on disk, so that memory does not grow with the source.
CREATE_LISTING = """
CREATE TABLE object (
  sort_key BLOB NOT NULL, is_dir INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
  etag TEXT NOT NULL, version_id TEXT NOT NULL, PRIMARY KEY (sort_key, is_dir)
) WITHOUT ROWID
"""
