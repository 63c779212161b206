"""Where an epoch's time goes, and what would give it back: from measurements to a split and predictions; pure."""
