"""Expectation maximisation (section 9)."""
