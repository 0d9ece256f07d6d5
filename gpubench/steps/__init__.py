"""Steps of a simulation, as algorithms that a study measures."""
