// Another library that is loaded before a program's own, as profilers and allocators are: it counts calls of malloc and of cuMemAlloc_v2.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

long interposed_allocations, interposed_device_allocations;
extern void *__libc_malloc(size_t);

void *malloc(size_t size) {
    __atomic_add_fetch(&interposed_allocations, 1, __ATOMIC_RELAXED);
    return __libc_malloc(size);
}

int cuMemAlloc_v2(uint64_t *pointer, size_t size) {
    static int (*next)(uint64_t *, size_t);
    if (!next) next = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    __atomic_add_fetch(&interposed_device_allocations, 1, __ATOMIC_RELAXED);
    return next ? next(pointer, size) : 500;
}
