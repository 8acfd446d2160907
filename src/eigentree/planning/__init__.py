"""Which columns each edge looks at, from the structure alone (sections 6 and 7)."""
