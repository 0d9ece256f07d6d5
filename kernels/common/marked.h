/* The candidates that were marked for a particle; to be included in the body of a kernel. Takes `i`,
   the particle, `met`, how many words of `notes` are its own, and NOTE: the last of up to 32
   candidates, and their marks, see common/coarse.h. NEIGHBOUR(j): what is done with each. Or IN_RANGE(j):
   whether one is a neighbour; the marks of those that are none are taken away.

   One loop over all marks, as words differ from thread to thread in how many they have. While those
   of one are at work, the next is on its way. */
{
    unsigned marks = 0, next = 0;
    int last = 0, next_last = 0, k = 0;
#ifdef IN_RANGE
    unsigned kept = 0;
#endif
    if (k < met) {
        next_last = notes[NOTE(i, 0)];
        next = (unsigned)notes[NOTE(i, 1)];
    }
    while (marks || k < met) {
        if (!marks) {
            marks = next;
            last = next_last;
            k += 2;
            if (k < met) {
                next_last = notes[NOTE(i, k)];
                next = (unsigned)notes[NOTE(i, k + 1)];
            }
#ifdef IN_RANGE
            kept = marks;
#endif
        }
        if (marks) {
            int bit = 31 - __clz((int)marks);
            marks ^= 1u << bit;
#ifdef IN_RANGE
            if (!IN_RANGE(last - bit))
                kept ^= 1u << bit;
            if (!marks)
                notes[NOTE(i, k - 1)] = (int)kept;
#else
            NEIGHBOUR(last - bit);
#endif
        }
    }
}
