"""Whether a body is what its ETag says, where an ETag may be an MD5 or just look like one.

Most servers' ETag of an object that was put whole is its MD5. Some give 32 hexadecimal digits that are none (S3
Express, SSE-KMS without the header, other makes). One match proves the source. Until then, objects that came twice with
the same other MD5, of right length and under If-Match, show that its ETags are no MD5s.
"""

import re
from dataclasses import dataclass, replace

_MD5 = re.compile(r"[0-9a-f]{32}")
# Objects that must differ twice before the ETags are taken for something else: one or two might be spoilt on the way.
_DOUBTS = 3


def looks_like_md5(etag: str) -> bool:
    """Tell whether an ETag has the form of an MD5; multipart ETags end with ``-N``."""
    return _MD5.fullmatch(etag) is not None


@dataclass(frozen=True)
class EtagTrust:
    """What is known about the ETags of one source, which has so many ``objects``."""

    objects: int
    proven: bool = False
    seen: frozenset[tuple[str, str]] = frozenset()  # (ETag, MD5) that differed once
    doubtful: frozenset[str] = frozenset()  # ETags whose objects differed twice in the same way

    def judge(self, etag: str, md5: str) -> tuple[bool, "EtagTrust"]:
        """Decide whether to keep a body with this MD5; also what is known now."""
        if etag == md5:
            return True, self if self.proven else EtagTrust(self.objects, proven=True)
        if self.proven:
            return False, self
        known = replace(self, seen=self.seen | {(etag, md5)})
        if (etag, md5) in self.seen:
            known = replace(known, doubtful=self.doubtful | {etag})
        return known.opaque, known

    @property
    def opaque(self) -> bool:
        """Whether these ETags are known to be no MD5s."""
        return not self.proven and len(self.doubtful) >= min(_DOUBTS, self.objects)

    def worth_hashing(self, etag: str) -> bool:
        """Tell whether the MD5 of a body with this ETag proves anything."""
        return not self.opaque and looks_like_md5(etag)
