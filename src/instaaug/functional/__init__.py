"""Pure tensor mathematics: no modules, no randomness, no state."""
