"""The one message-passing engine: tensors, operators, passes, models (sections 2, 4.2 and 5)."""
