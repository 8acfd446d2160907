"""Sequences of any length, as users bring them and get them back."""
