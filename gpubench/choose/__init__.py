"""Which one should I use? Interpolates what was measured, and nothing else; needs no device."""
