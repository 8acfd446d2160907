"""Latent graphs and their junction trees (section 3 of the paper)."""
