// A library that is linked to the driver, as CUDA's own are: it takes memory until that is refused.
#include <stddef.h>
#include <stdint.h>

extern int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
extern int cuMemAlloc_v2(uint64_t *, size_t), cuMemFree_v2(uint64_t);

// How many blocks of 8 MiB there were.
int take_all(void) {
    uint64_t blocks[1024];
    void *context;
    int count = 0;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return -1;
    while (count < 1024 && !cuMemAlloc_v2(&blocks[count], 8 << 20)) count++;
    for (int at = 0; at < count; at++) if (cuMemFree_v2(blocks[at])) return -2;
    return count;
}
