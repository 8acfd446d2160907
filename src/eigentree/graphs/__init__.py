"""Latent graphs, junction trees, templates, structure learning."""
