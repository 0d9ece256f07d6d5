"""What an algorithm is, and what every other part stands on."""
