"""EM on rows that are on disk or on workers."""
