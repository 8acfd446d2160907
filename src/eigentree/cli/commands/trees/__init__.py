"""Commands of data whose items are trees."""
