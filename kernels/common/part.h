/* The rows of a rank's part of a box, in device memory, so that no host need know them: an array of
   PART_WORDS numbers, as in gpubench/decomposed/direct.py. Also the layout of launches for the two
   sides of a part: `per_side` blocks for the lower, then as many for the upper. */
#ifndef GPUBENCH_COMMON_PART_H
#define GPUBENCH_COMMON_PART_H

#define PART_HELD 0   /* rows of the state; some may have left */
#define PART_STAYED 1 /* those that have not */
#define PART_OWNED 2  /* sorted rows */
#define PART_FAULT 3  /* what went wrong: PART_CROWDED and so on */
/* The sorted rows: from BEGIN the lower edge, from INNER the inner planes, with MIDDLE halfway, from
   LAST the upper edge, END exclusive. */
#define PART_BEGIN 4
#define PART_INNER 5
#define PART_MIDDLE 6
#define PART_LAST 7
#define PART_END 8

#define PART_CROWDED 1 /* an edge plane or its migrants have more rows than room */
#define PART_FULL 2    /* more rows than the capacity */
#define PART_ROSE 4    /* a particle may rise above the sorted planes */
#define PART_LATE 8    /* a neighbour did not answer in time */

#define FLAG_STEP 32 /* words between flags */

#define HAS_SIDE(side) (sides >> (side)&1)

#define SIDE_AND_ITEM(side, k)                                                                     \
    int side = blockIdx.x >= per_side;                                                                 \
    int k = (int)(blockIdx.x - side * per_side) * BLOCK + (int)threadIdx.x;

#endif
