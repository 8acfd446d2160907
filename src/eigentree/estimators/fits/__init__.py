"""What the fit of an estimator is made of: rows read, held out or sampled, and the problem that EM solves."""
