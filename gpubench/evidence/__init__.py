"""What was measured, as data."""
