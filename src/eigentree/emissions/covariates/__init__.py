"""Distributions that depend on covariates."""
