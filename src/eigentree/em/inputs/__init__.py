"""Hidden chains whose tables depend on inputs: their objective and their fit."""
