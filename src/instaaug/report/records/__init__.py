"""What the folders of runs say, and which charts they have the numbers for."""
