"""The names of what draws pictures, without the libraries that draw."""

AUTO = "auto"
PYVISTA = "pyvista"
MATPLOTLIB = "matplotlib"
NAMES = (AUTO, PYVISTA, MATPLOTLIB)
