"""The page of runs: what it shows as plain data, and the one HTML file it becomes."""
