"""Oracles for right answers, and the inputs on which algorithms are tested."""
