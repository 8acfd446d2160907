"""Operators from counts (Algorithm 1), shrinkage and diagnostics."""
