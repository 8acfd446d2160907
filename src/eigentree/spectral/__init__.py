"""Learning operators from counts (sections 6 to 8, Algorithm 1)."""
