namespace gpubench {
namespace detail {

#include "prelude/cuda.h"
#include "common/grid.h"

namespace sort {

constexpr int BLOCK = $SORT_BLOCK, ITEMS = $SORT_ITEMS, REORDER = 0;

#include "counting_sort.cu"
#include "gather.cu"

}

namespace scan_cells {

constexpr int BLOCK = $SCAN_BLOCK, ITEMS = $SCAN_ITEMS, CLEAR = 1;
using SUM = int;

#include "common/lookback.h"
#include "scan.cu"

}

#if LISTS
namespace scan_counts {

constexpr int BLOCK = $SCAN_BLOCK, ITEMS = $SCAN_ITEMS, CLEAR = 0;
using SUM = int64;

#include "common/lookback.h"
#include "scan.cu"

}

#endif
namespace query {

constexpr int BLOCK = $QUERY_BLOCK, STEP = $STEP, PERIODIC = $PERIODIC, REACH = $PARTS, HALF = 0;
#if LISTS
constexpr int WORDS = $WORDS;
#endif

#include "common/stretch.h"
#if LISTS
#include "common/marks.h"
#include "neighbour_mark.cu"
#include "neighbour_fill.cu"
#else
#include "neighbour_count.cu"
#endif

}

}
}
