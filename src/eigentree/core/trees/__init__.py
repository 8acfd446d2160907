"""Compiled loops on trees: messages, normalised scoring, E-step, max-product, sampling."""
