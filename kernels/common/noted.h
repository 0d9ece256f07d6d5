/* The neighbours of a particle that were noted, or where they did not fit, all candidates; to be
   included in the body of a kernel like candidates.h, with NEAR, `noted` and `notes` besides. VISIT
   must do nothing for particles 1 or further away; NEIGHBOUR, if defined, is done with those noted in
   its place. MARKED: notes are marks, see common/marked.h. */
#ifndef NEIGHBOUR
#define NEIGHBOUR VISIT
#endif
{
    int met = noted[i];
    if (met <= NEAR) {
#if MARKED
#include "common/marked.h"
#else
        for (int k = 0; k < met; ++k) {
            NEIGHBOUR(notes[NOTE(i, k)]);
        }
#endif
    } else {
#include "common/candidates.h"
    }
}
