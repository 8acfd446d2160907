"""Which columns are counted together for each edge, from the structure alone (sections 6 and 7)."""
