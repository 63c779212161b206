"""What a mount says of its order: read by its command, which does without all that orders need."""

from stoker_api.meta import Model


class OrderReport(Model):
    """Whether it is read so. ``state``: Known, Wrong or Unknown; empty: nothing is said of its order.

    ``source``: who says the order, Spec (--sampling) or Report (who reads it).

    ``agreement``: percent of the last 500 reads; None: too few were seen. ``message``: a sentence.
    """

    state: str = ""
    agreement: int | None = None
    message: str = ""
    source: str = ""
