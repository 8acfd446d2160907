"""The command `eigentree`: what its commands share."""
