"""A search for the entropy band and the learning rate of φ, on validation images."""
