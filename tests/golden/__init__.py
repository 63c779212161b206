"""Files and messages that releases exchange: as d853cc78 wrote them, and as a later release may write them."""
