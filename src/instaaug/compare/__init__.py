"""Many methods, the same model, images and seeds: who takes part, how it goes, what came out."""
