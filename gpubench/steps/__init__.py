"""Steps of a simulation as something that a study measures."""
