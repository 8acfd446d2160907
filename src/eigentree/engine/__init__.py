"""The one message-passing engine: tensors, operators, passes, queries (sections 2, 4.2 and 5)."""
