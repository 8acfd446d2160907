"""Rows that come in batches: files, iterators, partitions of a cluster."""
