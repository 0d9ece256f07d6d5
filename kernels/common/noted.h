/* Iterate over the recorded neighbours of a particle, or over all candidates if these did not fit;
   to be included in the body of a kernel like candidates.h, with NEAR, `noted` and `notes` as well.
   VISIT must do nothing for particles at a distance of 1 or more; NEIGHBOUR, if defined, replaces
   it for recorded ones. MARKED: notes are marks, see common/marked.h. */
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
