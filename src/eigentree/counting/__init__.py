"""Additive statistics of rows (section 6)."""
