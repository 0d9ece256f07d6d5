"""Published tables and sweeps, one TOML file each, and the code that runs any of them."""
