"""Offline checks of documents for `stoker validate`. Pure."""
