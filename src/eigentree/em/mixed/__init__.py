"""EM for networks with numbers: rows, the objective, initialisers, and the choice of emissions."""
