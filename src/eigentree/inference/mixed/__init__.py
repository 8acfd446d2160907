"""Networks with numbers: a discrete network whose leaves also show numbers, and its queries."""
