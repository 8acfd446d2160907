"""Operators of one step, from windows of sequences."""
