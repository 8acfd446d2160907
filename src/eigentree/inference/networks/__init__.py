"""Latent graphs with probability tables, and exact inference about them."""
