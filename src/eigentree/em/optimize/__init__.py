"""What EM maximises, the steps by which it does, and when it stops."""
