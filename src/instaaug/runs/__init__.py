"""One run: its settings, its folder, and all that can be done with it."""
