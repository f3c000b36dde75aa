"""Do crops find the object? Expected overlaps, what chance would give, and pictures of both."""
