"""Labelled tensors, and messages along trees (sections 2 and 4.1)."""
