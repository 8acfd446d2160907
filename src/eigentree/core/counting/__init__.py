"""Compiled loops that encode and count."""
