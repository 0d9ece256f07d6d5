/* Iterate over the pairs of a warp's particles with candidates of larger index that may be in range, in sorted cells
   (TRAVERSAL 0) on CUDA; to be included in the body of a kernel that all lanes of a warp run:

       for each particle i of the warp, for each candidate j > i of 14 cells that common/coarse.h does not rule out:
           PAIR(lane, j), with the lane of i

   Lanes find candidates of their own particles, which are unequally many, and put them into a queue, up to
   MOST_PAIRS at a time. Then each takes as many pairs of it as any other, of any lane's particles; fewer than 32
   wait. A queued pair is a word: the lane, and how far j is behind the warp's first particle, so there may be up to
   2^PAIR_BITS particles.

   Takes `i`, `has` (whether there is such a particle), `p`, its position, `from`, the warp's first particle, `box`,
   `cells` and `coarse`. */
#define PAIR_BITS 27
#define MOST_PAIRS 12
#define PAIR_QUEUE (32 * MOST_PAIRS + 31)
#define TAKE_PAIR(pair) PAIR((pair) >> PAIR_BITS, from + (int)((pair) & ((1u << PAIR_BITS) - 1)))
{
    const int lane = threadIdx.x % 32, end_x = (int)box->cells[0] - 1, least = -box->coarse_square;
    const int cx = cell_at(box, 0, p.x), cy = cell_at(box, 1, p.y), cz = cell_at(box, 2, p.z);
    const int first_x = max(cx - REACH, 0), last_x = min(cx + REACH, end_x);
    /* Past the end of a periodic row it continues at the row's other end. */
    const int wraps = has && box->periodic[0] && (cx < REACH || cx > end_x - REACH);
    const int first_far = cx < REACH ? end_x + 1 + cx - REACH : 0;
    const int last_far = cx < REACH ? end_x : cx + REACH - end_x - 1;
    const int any_wraps = __any_sync(ALL, wraps);
    const unsigned own = coarse[i];
    const unsigned with_lane = ((unsigned)lane << PAIR_BITS) - from;
    __shared__ unsigned queue[BLOCK / 32 * PAIR_QUEUE];
    unsigned *pairs = queue + threadIdx.x / 32 * PAIR_QUEUE;
    int waiting = 0; /* the same in all lanes */
    for (int dz = -1; dz <= 1; ++dz) {
        const int z = neighbour_at(box, 2, cz + dz);
        const int is_behind = has && z >= cz;
        if (!__any_sync(ALL, is_behind))
            continue;
        for (int far = 0; far <= any_wraps; ++far) {
            int begin[3], end[3]; /* first, so that their loads overlap */
#pragma unroll
            for (int r = 0; r < 3; ++r) {
                const int y = neighbour_at(box, 1, cy + r - 1);
                begin[r] = end[r] = 0;
                if (is_behind && (!far || wraps) && y >= (z == cz ? cy : 0)) {
                    const int row = cell_index(box, 0, y, z);
                    begin[r] = max(cells[row + (far ? first_far : first_x)], (int)i + 1);
                    end[r] = cells[row + (far ? last_far : last_x) + 1];
                }
            }
            for (int is_more = 1; is_more;) {
                unsigned marks[3];
                int last[3];
                is_more = 0;
#pragma unroll
                for (int r = 0; r < 3; ++r) {
                    const int behind = min((begin[r] & -AT_ONCE) + 32, end[r]);
                    marks[r] = begin[r] < behind ? coarse_marks(coarse, own, begin[r], behind, least) : 0;
                    last[r] = behind - 1;
                    begin[r] = max(begin[r], behind);
                    is_more |= begin[r] < end[r];
                }
                is_more = __any_sync(ALL, is_more);
                do {
                    const int found = min(__popc(marks[0]) + __popc(marks[1]) + __popc(marks[2]), MOST_PAIRS);
                    int sum = found; /* of the lanes up to this one */
#pragma unroll
                    for (int by = 1; by < 32; by *= 2) {
                        const int before = __shfl_up_sync(ALL, sum, by);
                        sum += lane >= by ? before : 0;
                    }
                    unsigned *to = pairs + waiting + sum - found;
                    waiting += __shfl_sync(ALL, sum, 31);
                    for (const unsigned *stop = to + found; to < stop; ++to) {
                        if (!marks[0]) { /* the next row's */
                            marks[0] = marks[1] ? marks[1] : marks[2];
                            last[0] = marks[1] ? last[1] : last[2];
                            marks[2] = marks[1] ? marks[2] : 0;
                            marks[1] = 0;
                        }
                        const int bit = 31 - __clz((int)marks[0]);
                        marks[0] ^= 1u << bit;
                        *to = with_lane + last[0] - bit;
                    }
                    const int each = waiting / 32; /* adjacent ones: then most sums at a time are different */
                    waiting %= 32;
                    const unsigned *next = pairs + waiting + lane * each;
                    __syncwarp();
                    for (int k = 0; k < each; ++k)
                        TAKE_PAIR(next[k])
                    __syncwarp();
                } while (__any_sync(ALL, marks[0] | marks[1] | marks[2]));
            }
        }
    }
    __syncwarp();
    if (lane < waiting)
        TAKE_PAIR(pairs[lane])
    __syncwarp();
}
