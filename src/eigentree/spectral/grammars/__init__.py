"""Operators of rules and words, from the inside and outside features of the nodes of trees."""
