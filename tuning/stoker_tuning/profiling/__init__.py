"""The parts of an epoch's time, and predictions of faster epochs, from measurements. Pure."""
