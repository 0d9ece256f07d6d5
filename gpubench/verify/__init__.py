"""Right answers: oracles, and the inputs on which an algorithm must give them."""
