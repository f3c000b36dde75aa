"""Pictures of inputs, distributions and samples: one function each, which returns a figure."""
