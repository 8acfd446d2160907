"""Compiled loops, by phase."""
