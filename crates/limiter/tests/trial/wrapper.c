// A library that is loaded before a program's own and wraps dlsym itself, as some profilers do: it counts, and asks the next one.
#define _GNU_SOURCE
#include <dlfcn.h>

long wrapped_lookups;

void *dlsym(void *handle, const char *name) {
    static void *(*next)(void *, const char *);
    if (!next) next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    __atomic_add_fetch(&wrapped_lookups, 1, __ATOMIC_RELAXED);
    return next(handle, name);
}
