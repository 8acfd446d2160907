"""Conditional probability tables from a spectral fit."""
