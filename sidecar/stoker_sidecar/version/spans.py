"""Arithmetic of chunks, the pieces in which large files come. Bytes everywhere."""

# A GET of 8 MiB runs at nearly the speed of a long one, and a random read waits for 8 MiB at most.
CHUNK = 8 * 1024 * 1024


def is_whole(size: int) -> bool:
    """Tell whether a file of this size is fetched in one piece."""
    return size <= CHUNK


def chunk_count(size: int) -> int:
    """Count the chunks of a file; an empty one has none."""
    return -(-size // CHUNK)


def chunk_span(size: int, chunk: int) -> tuple[int, int]:
    """Return offset and length of a chunk."""
    offset = chunk * CHUNK
    return offset, min(CHUNK, size - offset)


def chunks_of(offset: int, length: int, size: int) -> range:
    """Return the chunks that hold [offset, offset + length), cut at the file's end."""
    end = min(offset + length, size)
    return range(offset // CHUNK, -(-end // CHUNK)) if offset < end else range(0)
