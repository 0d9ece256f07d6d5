/* The neighbours of a particle that were noted, or where they did not fit, all candidates; to be
   included in the body of a kernel like candidates.h, with NEAR, `noted` and `notes` besides.
   VISIT must do nothing for particles 1 or further away. */
{
    int met = noted[i];
    if (met <= NEAR) {
        for (int k = 0; k < met; ++k) {
            VISIT(notes[NOTE(i, k)]);
        }
    } else {
#include "common/candidates.h"
    }
}
