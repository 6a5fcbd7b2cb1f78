// Allocates and frees as often as it is told; prints picoseconds for each pair.
//
//     pairs async|plain BYTES PAIRS HELD      HELD: how many plain allocations there are beside
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now(void) { struct timespec time; clock_gettime(CLOCK_MONOTONIC, &time); return time.tv_sec * 1000000000ull + time.tv_nsec; }

int main(int number, char **words) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library || number < 5) return 2;
    int (*allocate)(uint64_t *, size_t, void *) = dlsym(library, "cuMemAllocAsync"), (*release)(uint64_t, void *) = dlsym(library, "cuMemFreeAsync");
    int (*plain)(uint64_t *, size_t) = dlsym(library, "cuMemAlloc_v2"), (*plain_free)(uint64_t) = dlsym(library, "cuMemFree_v2");
    size_t bytes = atol(words[2]);
    long pairs = atol(words[3]), failed = 0;
    uint64_t pointer;
    ((int (*)(unsigned))dlsym(library, "cuInit"))(0);
    for (long at = atol(words[4]); at > 0; at--) failed += plain(&pointer, 1 << 20);
    for (int round = 0; round < 2; round++) { // The first warms up.
        uint64_t begin = now();
        if (!strcmp(words[1], "async")) for (long at = 0; at < pairs; at++) { failed += allocate(&pointer, bytes, 0); failed += release(pointer, 0); }
        else for (long at = 0; at < pairs; at++) { failed += plain(&pointer, bytes); failed += plain_free(pointer); }
        if (round) printf("%lu\n", (unsigned long)((now() - begin) * 1000 / pairs));
    }
    return failed != 0;
}
