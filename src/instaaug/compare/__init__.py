"""Many runs: comparisons of methods, and the search for the entropy band."""
