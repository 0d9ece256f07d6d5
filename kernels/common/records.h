/* Records of a stream, some of them null.

   WORDS is the size of a record in 32-bit words. Records move as integers, so that all bits of
   floats survive, also those of NaNs. With PREDICATE a record is null if keep[i] is zero; without
   it, if its first float is +infinity (Horn 2005, section 36.1). With BOTH the null records are
   also kept, separately. There are size[0] records, a number known only to the device. */
#ifndef GPUBENCH_COMMON_RECORDS_H
#define GPUBENCH_COMMON_RECORDS_H

#if WORDS == 1
typedef int Record;
#define FIRST_WORD(record) (record)
#elif WORDS == 2
typedef int2 Record;
#define FIRST_WORD(record) (record).x
#elif WORDS == 4
typedef int4 Record;
#define FIRST_WORD(record) (record).x
#else
typedef struct Record {
    int word[WORDS];
} Record;
#define FIRST_WORD(record) (record).word[0]
#endif

#define POSITIVE_INFINITY 0x7f800000

/* Whether record i is null. The compiler removes unused loads of callers. */
__device__ __forceinline__ int is_null(Record record, GLOBAL const int *keep, size_t i)
{
#if PREDICATE
    return keep[i] == 0;
#else
    return FIRST_WORD(record) == POSITIVE_INFINITY;
#endif
}

/* The number of records a kernel may access: a stream that outgrew its arrays is truncated. */
__device__ __forceinline__ int length_of(GLOBAL const int *size, int most)
{
    return min(size[0], most);
}

#endif
