/* Adaptive bitonic sorting (Bilardi and Nicolau 1989) of (cell, particle) keys on a stream
   machine, after GPU-ABiSort (Greß and Zachmann 2006): fewer than 2 n log2 n comparisons.

   Two sorted runs, the first falling and the second rising, form a bitonic sequence. It is stored
   as a bitonic tree: its keys in order are those of the tree's nodes from left to right, then that
   of a spare node. One pass down such a tree exchanges keys and whole subtrees until every key of
   its left half is smaller than every key of its right half; both halves are bitonic again. Each
   merge splits its tree into trees of CHUNK keys, which Batcher's network of common/bitonic.h sorts
   in shared memory. CHUNK = 2 leaves nothing to the network.

   Node i is at index i of its array, in order, which determines the children of a fresh node.
   Indices past the last particle have infinite keys by convention: no merge step moves them, as the
   rising run ends with them, so they need no memory. CHUNK is a power of two, at least 2; BLOCK
   threads per block, at least 2 * SEARCHERS. */

#include "common/bitonic.h"

typedef struct Node {
    uint64 key;
    unsigned left, right;
} Node;

/* A bitonic tree: all keys are under the root except the last, that of the spare node. */
typedef struct Tree {
    unsigned root, spare;
} Tree;

/* The two trees that a tree was split into. */
typedef struct Split {
    Tree low, high;
} Split;

__device__ __forceinline__ Node fresh_node(uint64 key, unsigned place)
{
    unsigned reach = ((place + 1) & (~place)) / 2;
    Node node;
    node.key = key;
    node.left = place - reach;
    node.right = place + reach;
    return node;
}

__device__ __forceinline__ Node load_node(GLOBAL const Node *nodes, unsigned place,
                                          unsigned particles)
{
    return place < particles ? nodes[place] : fresh_node(INFINITE, place);
}

/* The tree over `size` fresh nodes. */
__device__ __forceinline__ Tree fresh_tree(unsigned begin, unsigned size)
{
    Tree tree;
    tree.root = begin + size / 2 - 1;
    tree.spare = begin + size - 1;
    return tree;
}

/* Whether the merge at this index has two runs; a single run is already sorted. */
__device__ __forceinline__ bool has_two_runs(unsigned place, int log2_size, unsigned particles)
{
    unsigned begin = place >> log2_size << log2_size;
    return begin + (1u << (log2_size - 1)) < particles;
}

/* Write a sorted key where the next merge reads it: a run followed by another is falling. */
__device__ __forceinline__ void store_sorted(GLOBAL Node *nodes, GLOBAL uint64 *keys, uint64 key,
                                             unsigned place, int log2_run, int is_last,
                                             unsigned particles)
{
    unsigned run = 1u << log2_run, begin = place >> log2_run << log2_run;
    if (place >= particles)
        return;
    if (is_last) {
        keys[place] = key;
    } else {
        if (!(begin & run) && begin + run < particles)
            place = begin + run - 1 - (place - begin);
        nodes[place] = fresh_node(key, place);
    }
}

/* Make the keys and sort each chunk. */
__global__ void sort_chunks(GLOBAL const int *__restrict__ cell_of, GLOBAL Node *__restrict__ nodes,
                            GLOBAL uint64 *__restrict__ keys, int log2_chunk, int is_last,
                            int particles, GLOBAL int *comparisons)
{
    __shared__ uint64 chunk[TILE_WORDS(CHUNK)];
    unsigned begin = blockIdx.x * CHUNK;
    for (unsigned k = threadIdx.x; k < CHUNK; k += BLOCK)
        chunk[AT(k)] = begin + k < particles ? pair_key(cell_of[begin + k], begin + k) : INFINITE;
    sort_tile(chunk, CHUNK);
    for (unsigned k = threadIdx.x; k < CHUNK; k += BLOCK)
        store_sorted(nodes, keys, chunk[AT(k)], begin + k, log2_chunk, is_last, particles);
    if (COUNT && threadIdx.x == 0)
        atomicAdd(comparisons, CHUNK / 2 * log2_chunk * (log2_chunk + 1) / 2);
}

/* Split each tree of 2^log2_tree keys `stages` times: into halves, their halves, and so on.

   A tree has 2^stages threads, numbered as a heap: thread 1 splits the tree itself, threads 2 and 3
   its halves. A split descends from the root, one level per phase. The halves follow two phases
   later, as in GPU-ABiSort, so that no two threads access the same node.
   trees: those to split; not read if log2_tree = log2_size, the size of the merge. */
__global__ void split_trees(GLOBAL Node *nodes, GLOBAL const Tree *__restrict__ trees,
                            GLOBAL Tree *__restrict__ parts, int log2_size, int log2_tree,
                            int stages, int particles, GLOBAL int *comparisons)
{
    __shared__ Split splits[SPLIT_BLOCK];
    unsigned number = (blockIdx.x * SPLIT_BLOCK + threadIdx.x) >> stages;
    unsigned slot = threadIdx.x & ((1u << stages) - 1);
    unsigned begin = number << log2_tree;
    bool splitting = slot > 0 && number <= (unsigned)(particles - 1) >> log2_tree &&
                     has_two_runs(begin, log2_size, particles);
    int stage = 31 - __clz((int)slot | 1), compared = 0;

    unsigned low = 0, high = 0; /* position of the pass in the left and the right half */
    for (int step = 0; step < log2_tree + stages - 1; ++step) {
        int phase = step - 2 * stage;
        if (splitting && phase == 0) {
            Split parent = splits[threadIdx.x - slot + slot / 2];
            Tree tree = slot % 2 ? parent.high : parent.low;
            if (slot == 1)
                tree = log2_tree == log2_size ? fresh_tree(begin, 1u << log2_tree) : trees[number];
            Node root = load_node(nodes, tree.root, particles);
            Node spare = load_node(nodes, tree.spare, particles);
            low = root.left;
            high = root.right;
            /* The last keys of both halves are in the wrong order: exchange the halves. */
            if (root.key > spare.key) {
                low = root.right;
                high = root.left;
                nodes[tree.spare].key = root.key;
                root.key = spare.key;
                root.left = low;
                root.right = high;
                nodes[tree.root] = root;
            }
            Split split;
            split.low.root = low;
            split.low.spare = tree.root;
            split.high.root = high;
            split.high.spare = tree.spare;
            splits[threadIdx.x] = split;
            compared += tree.spare < particles;
        } else if (splitting && phase > 0 && phase < log2_tree - stage) {
            /* Now only keys at the front of both halves may be in the wrong order. If those in the
               middle are, so are all to their left: exchange them, and continue to the right. */
            Node a = load_node(nodes, low, particles), b = load_node(nodes, high, particles);
            compared += high < particles;
            if (a.key > b.key) {
                Node exchanged_a = b, exchanged_b = a;
                exchanged_a.right = a.right;
                exchanged_b.right = b.right;
                nodes[low] = exchanged_a;
                nodes[high] = exchanged_b;
                low = a.right;
                high = b.right;
            } else {
                low = a.left;
                high = b.left;
            }
        }
        __syncthreads();
    }

    /* The last stage leaves two trees per thread. */
    unsigned part = (number << stages) + 2 * slot - (1u << stages);
    unsigned parts_in_all = ((unsigned)(particles - 1) >> (log2_tree - stages)) + 1;
    if (splitting && stage == stages - 1) {
        if (part < parts_in_all)
            parts[part] = splits[threadIdx.x].low;
        if (part + 1 < parts_in_all)
            parts[part + 1] = splits[threadIdx.x].high;
    }
    if (COUNT && compared)
        atomicAdd(comparisons, compared);
}

/* Sort the trees of CHUNK keys that a merge was split into; with them all runs are sorted. */
__global__ void merge_chunks(GLOBAL const Node *__restrict__ nodes,
                             GLOBAL const Tree *__restrict__ trees, GLOBAL Node *__restrict__ merged,
                             GLOBAL uint64 *__restrict__ keys, int log2_size, int log2_chunk,
                             int is_last, int particles, GLOBAL int *comparisons)
{
    __shared__ uint64 chunk[TILE_WORDS(CHUNK)];
    unsigned begin = blockIdx.x * CHUNK;
    bool merging = has_two_runs(begin, log2_size, particles);

    /* Traverse the tree level by level: node indices are kept where their keys will be stored. */
    if (threadIdx.x == 0) {
        Tree tree = merging ? trees[blockIdx.x] : fresh_tree(begin, CHUNK);
        chunk[AT(CHUNK / 2 - 1)] = tree.root;
        chunk[AT(CHUNK - 1)] = load_node(nodes, tree.spare, particles).key;
    }
    for (unsigned reach = CHUNK / 2; reach > 0; reach /= 2) {
        __syncthreads();
        for (unsigned t = threadIdx.x; t < CHUNK / 2 / reach; t += BLOCK) {
            unsigned k = (2 * t + 1) * reach - 1;
            Node node = load_node(nodes, (unsigned)chunk[AT(k)], particles);
            chunk[AT(k)] = node.key;
            if (reach > 1) {
                chunk[AT(k - reach / 2)] = node.left;
                chunk[AT(k + reach / 2)] = node.right;
            }
        }
    }
    if (merging)
        merge_tile(chunk, CHUNK);
    else
        __syncthreads();
    for (unsigned k = threadIdx.x; k < CHUNK; k += BLOCK)
        store_sorted(merged, keys, chunk[AT(k)], begin + k, log2_size, is_last, particles);
    if (COUNT && merging && threadIdx.x == 0)
        atomicAdd(comparisons, CHUNK / 2 * log2_chunk);
}

/* Merge rising runs without trees. The keys of a tree of CHUNK keys are an interval of each of its
   two runs, whose ends are found by binary search: adaptive bitonic sorting by intervals (Peters,
   Schulz-Hildebrandt and Luttenberger 2012). */
__global__ void merge_intervals(GLOBAL const uint64 *__restrict__ keys,
                                GLOBAL uint64 *__restrict__ merged, int log2_size, int log2_chunk,
                                int particles, GLOBAL int *comparisons)
{
    __shared__ uint64 chunk[TILE_WORDS(CHUNK)];
    __shared__ unsigned least[2], most[2];
    unsigned run = 1u << (log2_size - 1);
    unsigned begin = blockIdx.x * CHUNK, base = begin >> log2_size << log2_size;
    unsigned first_length = min(run, particles - base);
    unsigned second_length = min(run, particles - base - first_length);
    GLOBAL const uint64 *first = keys + base, *second = first + first_length;

    /* The number of keys of the first run before this chunk, and before its end: SEARCHERS threads
       probe evenly spaced positions until one answer is left. */
    unsigned before = begin - base;
    unsigned upto = min(before + CHUNK, first_length + second_length);
    unsigned end = threadIdx.x / SEARCHERS, searcher = threadIdx.x % SEARCHERS;
    unsigned smallest = end ? upto : before;
    if (end < 2 && searcher == 0) {
        least[end] = (unsigned)max((int)smallest - (int)second_length, 0);
        most[end] = min(smallest, first_length);
    }
    __syncthreads();
    int compared = 0;
    while (least[0] < most[0] || least[1] < most[1]) {
        unsigned low = end < 2 ? least[end] : 0, high = end < 2 ? most[end] : 0;
        __syncthreads();
        if (low < high) {
            unsigned apart = (high - low + SEARCHERS - 1) / SEARCHERS;
            unsigned here = low + searcher * apart, there = here + apart;
            bool more = here < high && first[here] < second[smallest - 1 - here];
            bool less = there >= high || second[smallest - 1 - there] < first[there];
            if (more && less) {
                least[end] = here + 1;
                most[end] = min(there, high);
            } else if (searcher == 0 && !more) {
                most[end] = low;
            }
            compared += (here < high) + (there < high);
        }
        __syncthreads();
    }
    if (COUNT && compared)
        atomicAdd(comparisons, compared);

    /* One interval rising from the front, the other falling to the end: bitonic. */
    unsigned from_first = least[1] - least[0], from_second = upto - before - from_first;
    first += least[0];
    second += before - least[0];
    for (unsigned k = threadIdx.x; k < CHUNK; k += BLOCK) {
        unsigned from_end = CHUNK - 1 - k;
        chunk[AT(k)] = k < from_first ? first[k]
                       : from_end < from_second ? second[from_end] : INFINITE;
    }
    merge_tile(chunk, CHUNK);
    for (unsigned k = threadIdx.x; k < CHUNK; k += BLOCK)
        if (begin + k < particles)
            merged[begin + k] = chunk[AT(k)];
    if (COUNT && threadIdx.x == 0)
        atomicAdd(comparisons, CHUNK / 2 * log2_chunk);
}
