"""Which files are compressed by what they are, told by their first bytes, never by their names or sizes. Pure."""

# Enough for every magic number below.
MOST_HEAD = 16
_MAGIC = (
    b"\xff\xd8\xff",  # JPEG
    b"\x89PNG\r\n\x1a\n",
    b"GIF8",
    b"\xff\x0a",  # JPEG XL, also as a box:
    b"\x00\x00\x00\x0cJXL ",
    b"\x00\x00\x00\x0cjP  ",  # JPEG 2000
    b"ID3",  # MP3 with tags
    b"OggS",
    b"fLaC",
    b"\x1aE\xdf\xa3",  # Matroska, WebM
    b"\x1f\x8b",  # gzip
    b"BZh",
    b"\xfd7zXZ\x00",
    b"\x28\xb5\x2f\xfd",  # zstd
    b"\x04\x22\x4d\x18",  # LZ4
    b"\xff\x06\x00\x00sNaPpY",
    b"7z\xbc\xaf\x27\x1c",
    b"Rar!",
)
_ZIP, _STORED = b"PK\x03\x04", b"\x00\x00"


def is_compressed(head: bytes) -> bool:
    """Tell whether a file that begins so is compressed. ``head``: its first MOST_HEAD bytes, or all it has.

    What is not told so may still not become smaller: that shows when it is tried.
    """
    if head.startswith(_MAGIC) or head[4:8] == b"ftyp":  # MP4, HEIC, AVIF
        return True
    if head.startswith(_ZIP):  # PyTorch and NumPy store what they put into one as it is
        return head[8:10] != _STORED
    if head.startswith(b"RIFF"):
        return head[8:12] == b"WEBP"
    return _is_mpeg_audio(head)


def _is_mpeg_audio(head: bytes) -> bool:
    """Tell by the header of a frame of MP3 or AAC; reserved values are none."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return False
    if head[1] & 0xF6 == 0xF0:  # AAC in ADTS
        return head[2] >> 2 & 0xF < 13
    layer_3, known_version = head[1] & 0x06 == 0x02, head[1] & 0x18 != 0x08
    return layer_3 and known_version and head[2] >> 4 != 0xF and head[2] & 0x0C != 0x0C
