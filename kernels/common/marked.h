/* Iterate over the marked candidates of a particle; to be included in the body of a kernel. Takes
   `i`, the particle, and `met`, its number of pairs of words, see common/held.h. NEIGHBOUR(j): the
   action for each. Or IN_RANGE(j): whether one is a neighbour; marks of others are cleared, and
   `met` becomes the number of pairs with any left.

   One loop over all marks, as their number per word differs between threads. */
{
    int begun = 0;
#ifdef IN_RANGE
    GLOBAL int2 *to = &PAIR(i, 0);
    int left = 0;
#endif
    for (; begun < met; begun += HELD) {
        HELD_SPACE int2 *word = held, *end = held + min(met - begun, HELD) * HELD_STEP;
        unsigned marks = 0;
        int last = 0;
#if HELD_IS_SHARED
#ifdef IN_RANGE
        if (begun > 0)
#endif
        {
            GLOBAL const int2 *from = &PAIR(i, begun);
            for (; word != end; word += HELD_STEP, from += PAIR_STEP)
                *word = *from;
            word = held;
        }
#endif
#ifdef IN_RANGE
        unsigned kept = 0;
#endif
        while (marks || word != end) {
            if (!marks) {
                last = word->x;
                marks = (unsigned)word->y;
                word += HELD_STEP;
#ifdef IN_RANGE
                kept = marks;
#endif
            }
            int bit = 31 - __clz((int)marks);
            marks ^= 1u << bit;
#ifdef IN_RANGE
            if (!IN_RANGE(last - bit))
                kept ^= 1u << bit;
            if (!marks)
                word[-HELD_STEP].y = (int)kept;
#else
            NEIGHBOUR(last - bit);
#endif
        }
#ifdef IN_RANGE
        for (word = held; word != end; word += HELD_STEP) {
            int2 pair = *word;
            if (pair.y) {
                *to = pair;
                to += PAIR_STEP;
                ++left;
            }
        }
#endif
    }
#ifdef IN_RANGE
    met = left;
#endif
}
