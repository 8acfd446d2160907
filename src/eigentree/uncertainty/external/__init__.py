"""Latent classes and external variables: covariates of class membership, and distal outcomes."""
