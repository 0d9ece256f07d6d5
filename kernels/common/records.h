/* Records of a stream, and which of them are null.

   WORDS is the size of a record in 32-bit words. Records travel as integers, so that every bit of
   a float survives, those of a NaN too. With PREDICATE a record is null where keep[i] is zero;
   without it, where its first float is +infinity (Horn 2005, section 36.1). With BOTH the null
   records are kept too, apart from the others. size[0] records are there, which only the device
   knows. */
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

/* Whether record i is null. What a caller loads for nothing, the compiler drops. */
__device__ __forceinline__ int is_null(Record record, GLOBAL const int *keep, size_t i)
{
#if PREDICATE
    return keep[i] == 0;
#else
    return FIRST_WORD(record) == POSITIVE_INFINITY;
#endif
}

/* How many records a kernel may touch: a stream that outgrew its arrays ends where they do. */
__device__ __forceinline__ int length_of(GLOBAL const int *size, int most)
{
    return min(size[0], most);
}

#endif
