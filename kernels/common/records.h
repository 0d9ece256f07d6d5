/* Records of a stream, and which of them are null.

   WORDS is the size of a record in 32-bit words, 1 or 4. Records travel as integers, so that
   every bit of a float survives, those of a NaN too. With PREDICATE a record is null where
   keep[i] is zero; without it, where its first float is +infinity (Horn 2005, section 36.1). */
#ifndef GPUBENCH_COMMON_RECORDS_H
#define GPUBENCH_COMMON_RECORDS_H

#if WORDS == 4
typedef int4 Record;
#else
typedef int Record;
#endif

#define POSITIVE_INFINITY 0x7f800000

/* Whether record i is null. What a caller loads for nothing, the compiler drops. */
__device__ __forceinline__ int is_null(Record record, GLOBAL const int *keep, size_t i)
{
#if PREDICATE
    return keep[i] == 0;
#elif WORDS == 4
    return record.x == POSITIVE_INFINITY;
#else
    return record == POSITIVE_INFINITY;
#endif
}

#endif
