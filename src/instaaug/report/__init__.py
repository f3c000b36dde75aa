"""Figures and tables, from results alone; knows nothing of training."""
