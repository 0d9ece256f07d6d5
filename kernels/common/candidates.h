/* Iterate over the particles that may be within reach of one, including itself; to be included in the body of a kernel,
   after VISIT(j), the action for each, has been defined.

   Takes `i`, the particle, `p`, its position, `square_range`, and `box`, `cells`, `items` and `particles`. All
   particles nearer than the square root of `square_range` are visited, and some that are further. TRAVERSAL selects the
   meaning of cells and items:
     0  SortedCells: start, none; particles are in cell order
     1  LinkedCells: head, next
     2  LimitedCells: count, slots (CAPACITY per cell)
     3  neighbour lists: their lengths, and the lists (ROOM per particle)
     4 HashedCells: bounds, corner (BUCKETS as in common/hash.h); particles are in bucket order
   REACH: cells along x that span the range. AFTER, if defined: visit only particles with a larger index, for sorted
   cells in a ball only. IN_BALL, if defined: rows of sorted cells are clipped to the ball of that radius around the
   particle, which takes more registers. STRETCH(j, stop), if defined: for whole rows of sorted cells, called instead of
   VISIT with particles j to before `stop`. PLACES: the array of `p`, if its name is not `places`; read for hashed
   cells. */
#ifndef PLACES
#define PLACES places
#endif
{
#if TRAVERSAL == 3
    int listed = cells[i];
    for (int k = 0; k < listed; ++k) {
        VISIT(items[LIST_ITEM(i, k)]);
    }
#else
    int cx = cell_at(box, 0, p.x), cy = cell_at(box, 1, p.y), cz = cell_at(box, 2, p.z);
#if TRAVERSAL == 0
#ifdef IN_BALL
    /* Consecutive cells along x are one range of particles, which is clipped to the ball around the particle. So cells
       may be short, REACH of them per range. Past the end of a periodic row it continues at the row's other end. Bounds
       are slightly widened, by more than the rounding errors of `square_range`, of distances, and of coordinates in
       cells. */
    int end_x = (int)box->cells[0];
    int wraps = box->periodic[0] && (cx < REACH || cx >= end_x - REACH);
    float at_x = inside_cell(box, 0, p.x), at_y = inside_cell(box, 1, p.y);
    float at_z = inside_cell(box, 2, p.z), per_edge = 1.000002f / box->edge[0];
    int y[3];
    float square_y[3];
#pragma unroll
    for (int r = 0; r < 3; ++r) {
        float gap = box->edge[1] * (r == 0 ? at_y : r == 2 ? 1.0f - at_y : 0.0f);
        y[r] = neighbour_at(box, 1, cy + r - 1);
        square_y[r] = y[r] < 0 ? 3e38f : gap * gap;
    }
    for (int dz = -1; dz <= 1; ++dz) {
        int z = neighbour_at(box, 2, cz + dz);
        float gap_z = box->edge[2] * (dz < 0 ? at_z : dz > 0 ? 1.0f - at_z : 0.0f);
        float left_z = fmaf(square_range, 1.000004f, -(gap_z * gap_z));
        if (z < 0 || left_z < 0.0f)
            continue;
#ifdef AFTER
        if (z < cz)
            continue;
#endif
        for (int far = 0; far <= wraps; ++far) {
            int middle = far ? (cx < REACH ? cx + end_x : cx - end_x) : cx;
            /* The bounds of three rows first: their loads overlap. */
            int begin[3], count[3];
#pragma unroll
            for (int r = 0; r < 3; ++r) {
                float left = left_z - square_y[r];
                float half_width = fmaf(sqrt_about(left), per_edge, 1e-6f);
                int first = middle + (int)floorf(fmaxf(at_x - half_width, (float)-REACH));
                int last = middle + (int)floorf(fminf(at_x + half_width, (float)REACH));
                first = max(first, 0);
                last = min(last, end_x - 1);
                begin[r] = count[r] = 0;
#ifdef AFTER
                if (z == cz && y[r] < cy)
                    continue;
#endif
                if (left >= 0.0f && first <= last) {
                    int row = cell_index(box, 0, y[r], z);
                    begin[r] = cells[row + first];
#ifdef AFTER
                    begin[r] = max(begin[r], AFTER + 1);
#endif
                    count[r] = max(cells[row + last + 1] - begin[r], 0);
                }
            }
            /* One loop over all three, as their lengths differ between threads. */
            int two = count[0] + count[1], all = two + count[2];
            int second = begin[1] - count[0], third = begin[2] - two;
            for (int k = 0; k < all; ++k) {
                VISIT(k + (k < count[0] ? begin[0] : k < two ? second : third));
            }
        }
    }
#else
    /* Consecutive cells along x are one range of particles. So they may be short, REACH of them per range, which leaves
       fewer particles out of reach. Past the end of a periodic row it continues at the row's other end. */
    int last = (int)box->cells[0] - 1;
    int first_x = max(cx - REACH, 0), last_x = min(cx + REACH, last);
    int wraps = box->periodic[0] && (cx < REACH || cx > last - REACH);
    int first_far = cx < REACH ? last + 1 + cx - REACH : 0;
    int last_far = cx < REACH ? last : cx + REACH - last - 1;
    for (int dz = -1; dz <= 1; ++dz) {
        int z = neighbour_at(box, 2, cz + dz);
        if (z < 0)
            continue;
        /* The bounds of three rows first: their loads overlap. */
        int row[3], begin[3], end[3];
#pragma unroll
        for (int r = 0; r < 3; ++r) {
            int y = neighbour_at(box, 1, cy + r - 1);
            row[r] = y < 0 ? -1 : cell_index(box, 0, y, z);
            begin[r] = y < 0 ? 0 : cells[row[r] + first_x];
            end[r] = y < 0 ? 0 : cells[row[r] + last_x + 1];
        }
#pragma unroll
        for (int r = 0; r < 3; ++r) {
            int j = begin[r], stop = end[r];
            for (int piece = 0; piece <= wraps; ++piece) {
                if (piece) {
                    if (row[r] < 0)
                        break;
                    j = cells[row[r] + first_far];
                    stop = cells[row[r] + last_far + 1];
                }
#ifdef STRETCH
                STRETCH(j, stop);
#else
                for (; j < stop; ++j) {
                    VISIT(j);
                }
#endif
            }
        }
    }
#endif
#elif TRAVERSAL == 4
    /* A bucket shared by several cells is visited once. At a periodic boundary, where the 27 cells are not contiguous,
       each takes only its own particles from its bucket instead. Cells behind walls are empty. */
    uint4 products = cell_products(box, items, cx, cy, cz);
    int seam = is_at_seam(box, 0, cx) || is_at_seam(box, 1, cy) || is_at_seam(box, 2, cz);
    unsigned repeated = seam ? 0u : repeated_visits(products);
    for (int dz = -1; dz <= 1; ++dz) {
        int z = seam ? neighbour_at(box, 2, cz + dz) : cz + dz;
        for (int dy = -1; dy <= 1; ++dy) {
            int y = seam ? neighbour_at(box, 1, cy + dy) : cy + dy;
            /* The bounds of three buckets first: their loads overlap. */
            int x[3], begin[3], end[3];
#pragma unroll
            for (int b = 0; b < 3; ++b) {
                x[b] = seam ? neighbour_at(box, 0, cx + b - 1) : cx + b - 1;
                int bucket = bucket_near(products, x[b] - cx, y - cy, z - cz);
                int is_new = !(repeated >> visit_number(b - 1, dy, dz) & 1u);
                begin[b] = cells[2 * bucket];
                end[b] = is_new ? cells[2 * bucket + 1] : begin[b];
            }
#pragma unroll
            for (int b = 0; b < 3; ++b) {
                for (int j = begin[b]; j < end[b]; ++j) {
                    if (!seam || is_in_cell(box, PLACES[j], x[b], y, z))
                        VISIT(j);
                }
            }
        }
    }
#else
    for (int dz = -1; dz <= 1; ++dz) {
        int z = neighbour_at(box, 2, cz + dz);
        for (int dy = -1; dy <= 1; ++dy) {
            int y = neighbour_at(box, 1, cy + dy);
            for (int dx = -1; dx <= 1; ++dx) {
                int x = neighbour_at(box, 0, cx + dx);
                if (x < 0 || y < 0 || z < 0)
                    continue;
                int cell = cell_index(box, x, y, z);
#if TRAVERSAL == 1
                for (int j = cells[cell]; j >= 0; j = items[j]) {
                    VISIT(j);
                }
#else
                int inside = min(cells[cell], CAPACITY);
                for (int k = 0; k < inside; ++k) {
                    VISIT(items[cell * CAPACITY + k]);
                }
#endif
            }
        }
    }
#endif
#endif
}
