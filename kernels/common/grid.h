/* The cell grid, laid out as GRID_DTYPE in gpubench/core/grid.py, and the cell of a position. */
#ifndef GPUBENCH_COMMON_GRID_H
#define GPUBENCH_COMMON_GRID_H

typedef struct Grid {
    float low[3];
    float size[3];
    float inverse_cell[3];
    int cells[3];
    int periodic[3];
} Grid;

/* Cell coordinate along one axis. Subtract, multiply, floor: no step that a compiler may
   contract, so that every device agrees with NumPy to the bit. Positions lie in the box, so
   only one at (or rounded up to) the upper wall needs the clamp. */
__device__ __forceinline__ int cell_of_axis(float low, float inverse_cell, int cells, float coordinate)
{
    int cell = (int)floorf((coordinate - low) * inverse_cell);
    return max(0, min(cells - 1, cell));
}

__device__ __forceinline__ int cell_along(GLOBAL const Grid *grid, int axis, float coordinate)
{
    return cell_of_axis(grid->low[axis], grid->inverse_cell[axis], grid->cells[axis], coordinate);
}

/* Cell number of three coordinates: x fastest, then y, then z (Rozen et al. 2008, section 2.3). */
__device__ __forceinline__ int cell_number(GLOBAL const Grid *grid, int x, int y, int z)
{
    return (z * grid->cells[1] + y) * grid->cells[0] + x;
}

__device__ __forceinline__ int cell_of_position(GLOBAL const Grid *grid, float4 p)
{
    return cell_number(grid, cell_along(grid, 0, p.x), cell_along(grid, 1, p.y), cell_along(grid, 2, p.z));
}

#endif
