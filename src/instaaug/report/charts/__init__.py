"""Charts of numbers: one function each, which returns a figure."""
