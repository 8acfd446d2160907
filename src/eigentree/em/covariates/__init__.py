"""Parameters that depend on covariates: multinomial logits, and hidden chains with inputs."""
