"""Oracles for right answers, and the inputs on which an algorithm must give them."""
