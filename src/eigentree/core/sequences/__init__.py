"""Compiled loops along sequences: forward-backward, posteriors, operators of one step."""
