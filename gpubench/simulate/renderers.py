"""The names of the renderers, without importing drawing libraries."""

AUTO = "auto"
PYVISTA = "pyvista"
MATPLOTLIB = "matplotlib"
NAMES = (AUTO, PYVISTA, MATPLOTLIB)
