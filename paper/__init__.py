"""Studies of the paper: they use instaaug as anyone would, and are no part of it."""
