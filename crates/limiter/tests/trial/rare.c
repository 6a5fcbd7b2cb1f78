// A CUDA program for the limiter's tests that uses what few programs do: one way to memory or work, by its name, and a line about it.
//
//     rare WAY...
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uint64_t u64;
typedef struct { int type, handles, place, device; void *security; size_t most; unsigned short usage; unsigned char rest[54]; } Pool;
typedef struct { size_t width, height, depth; unsigned format, channels, flags; } Array3D;
typedef struct { unsigned resource; void *array; unsigned subresource; u64 region[4]; unsigned operation, kind; u64 handle, offset; unsigned devices, flags, reserved[2]; } Binding;

#define MIB (1ul << 20)
#define BLOCK (8 * MIB)

static void *library, *context;

static void say(const char *what, long one, long two) { printf("%s %ld %ld\n", what, one, two); fflush(stdout); }
static void must(const char *what, int code) { if (code) { say(what, code, -1); exit(3); } }
static void *find(const char *name) { void *found = dlsym(library, name); if (!found) must(name, 500); return found; }
#define CALL(name, parameters, ...) (((int (*) parameters)find(#name))(__VA_ARGS__))
#define MUST(name, parameters, ...) must(#name, CALL(name, parameters, __VA_ARGS__))
#define LAUNCH (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **)

static void pause_here(void) { char line[16]; say("pause", 0, 0); if (!fgets(line, 16, stdin)) exit(0); }
static u64 now(void) { struct timespec time; clock_gettime(CLOCK_MONOTONIC, &time); return time.tv_sec * 1000000000ull + time.tv_nsec; }

static void open_primary(void) {
    MUST(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
    MUST(cuCtxSetCurrent, (void *), context);
}

// Takes plain memory until that is refused.
static void fill(const char *name) {
    int count = 0, code = 0;
    u64 pointer;
    while (count < 100 && !(code = CALL(cuMemAlloc_v2, (u64 *, size_t), &pointer, BLOCK))) count++;
    say(name, count, code);
}

static void *spin(void) {
    void *module, *function;
    MUST(cuModuleLoadData, (void **, const void *), &module, ".version 6.0\n.visible .entry spin(.param .u64 ns) { ret; }");
    MUST(cuModuleGetFunction, (void **, void *, const char *), &function, module, "spin");
    return function;
}

static void old_memory(void) {
    unsigned pointers[100], pitch, count = 0, pitched = 0, left, most;
    int code;
    open_primary();
    while (!(code = CALL(cuMemAlloc, (unsigned *, unsigned), &pointers[count], BLOCK))) count++;
    say("old", count, code);
    pause_here();
    while (count) MUST(cuMemFree, (unsigned), pointers[--count]);
    while (!(code = CALL(cuMemAllocPitch, (unsigned *, unsigned *, unsigned, unsigned, unsigned), &pointers[pitched], &pitch, 4096, 2048, 4))) pitched++;
    say("old-pitch", pitched, code);
    MUST(cuMemGetInfo, (unsigned *, unsigned *), &left, &most);
    say("old-info", left, most);
    MUST(cuDeviceTotalMem, (unsigned *, int), &most, 0);
    say("old-total", most, 0);
    while (pitched) MUST(cuMemFree, (unsigned), pointers[--pitched]);
}

static void old_arrays(void) {
    struct { unsigned width, height, format, channels; } flat = {1024, 2048, 0x20, 1};
    struct { unsigned width, height, depth, format, channels, flags; } deep = {1024, 1024, 2, 0x20, 1, 0};
    void *arrays[100];
    int count = 0, code;
    open_primary();
    while (!(code = CALL(cuArrayCreate, (void **, const void *), &arrays[count], &flat))) count++;
    say("old-array", count, code);
    while (count) MUST(cuArrayDestroy, (void *), arrays[--count]);
    while (!(code = CALL(cuArray3DCreate, (void **, const void *), &arrays[count], &deep))) count++;
    say("old-array3d", count, code);
    while (count) MUST(cuArrayDestroy, (void *), arrays[--count]);
}

static void old_contexts(void) {
    void *same;
    MUST(cuCtxCreate, (void **, unsigned, int), &context, 0, 0);
    MUST(cuCtxAttach, (void **, unsigned), &same, 0);
    fill("old-context");
    MUST(cuCtxDetach, (void *), same);
    pause_here();
    MUST(cuCtxDetach, (void *), context);
}

// Contexts beside graphics libraries and of later versions, as many as there are; says how many of each.
static int make_context(int kind, void **made) {
    switch (kind) {
    case 0: return CALL(cuGLCtxCreate, (void **, unsigned, int), made, 0, 0);
    case 1: return CALL(cuGLCtxCreate_v2, (void **, unsigned, int), made, 0, 0);
    case 2: return CALL(cuVDPAUCtxCreate, (void **, unsigned, int, unsigned, void *), made, 0, 0, 1, NULL);
    case 3: return CALL(cuVDPAUCtxCreate_v2, (void **, unsigned, int, unsigned, void *), made, 0, 0, 1, NULL);
    case 4: return CALL(cuCtxCreate_v3, (void **, void *, int, unsigned, int), made, NULL, 0, 0, 0);
    default: return CALL(cuCtxCreate_v4, (void **, void *, unsigned, int), made, NULL, 0, 0);
    }
}

static void other_contexts(void) {
    void *made[100];
    for (int kind = 0; kind < 6; kind++) {
        int count = 0, code = 0;
        u64 pointer;
        while (count < 100 && !(code = make_context(kind, &made[count]))) count++;
        say("context", count, code);
        pause_here();
        // One ends with what was allocated in it.
        MUST(cuCtxDestroy_v2, (void *), made[--count]);
        MUST(cuMemAlloc_v2, (u64 *, size_t), &pointer, BLOCK);
        while (count) MUST(cuCtxDestroy_v2, (void *), made[--count]);
        pause_here();
    }
}

// Ends the primary context as CUDA did before 11.
static void old_primary(int at_once) {
    open_primary();
    fill("primary");
    if (at_once) MUST(cuDevicePrimaryCtxReset, (int), 0); else MUST(cuDevicePrimaryCtxRelease, (int), 0);
    pause_here();
}

// Launches with what was set before; says how many pieces of a millisecond there were in how many microseconds.
static void old_launches(void) {
    open_primary();
    void *function = spin();
    u64 nanoseconds = 1000000;
    long pieces = 0;
    MUST(cuFuncSetBlockShape, (void *, int, int, int), function, 32, 1, 1);
    MUST(cuParamSetSize, (void *, unsigned), function, 8);
    MUST(cuParamSetv, (void *, int, void *, unsigned), function, 0, &nanoseconds, 8);
    u64 begin = now();
    while (now() < begin + 1000000000ull) {
        MUST(cuLaunch, (void *), function);
        MUST(cuLaunchGrid, (void *, int, int), function, 1, 1);
        MUST(cuLaunchGridAsync, (void *, int, int, void *), function, 1, 1, NULL);
        MUST(cuCtxSynchronize, (void), );
        pieces += 3;
    }
    say("old-launches", pieces, (now() - begin) / 1000);
}

static void green(int launches) {
    u64 nanoseconds = 1000000;
    void *made, *view, *stream, *arguments[] = {&nanoseconds};
    long pieces = 0;
    int code = CALL(cuGreenCtxCreate, (void **, void *, int, unsigned), &made, &pieces, 0, 1);
    if (code) { say("green", 0, code); return; }
    MUST(cuCtxFromGreenCtx, (void **, void *), &view, made);
    MUST(cuCtxSetCurrent, (void *), view);
    if (!launches) {
        fill("green");
        pause_here();
        MUST(cuGreenCtxDestroy, (void *), made);
        return;
    }
    void *function = spin();
    MUST(cuGreenCtxStreamCreate, (void **, void *, unsigned, int), &stream, made, 1, 0);
    u64 begin = now();
    while (now() < begin + 1000000000ull) {
        for (int one = 0; one < 4; one++, pieces++)
            MUST(cuLaunchKernel, LAUNCH, function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
        MUST(cuStreamSynchronize, (void *), stream);
    }
    say("green-launches", pieces, (now() - begin) / 1000);
}

// Raises what kernels can allocate themselves until that is refused; says how many MiB it came to.
static void heap(void) {
    size_t before, after;
    int code = 0;
    open_primary();
    MUST(cuCtxGetLimit, (size_t *, int), &before, 2);
    for (size_t wanted = before + BLOCK; !code && wanted < 1ul << 30; wanted += BLOCK) code = CALL(cuCtxSetLimit, (int, size_t), 2, wanted);
    MUST(cuCtxGetLimit, (size_t *, int), &after, 2);
    say("heap", (after - before) / MIB, code);
    pause_here();
    MUST(cuCtxSetLimit, (int, size_t), 2, before);
    pause_here();
    // Stacks of all threads at once.
    code = CALL(cuCtxSetLimit, (int, size_t), 0, 64 << 10);
    say("stack", 0, code);
}

// Binds memory to an array, lets go of it, and takes more until that is refused.
static void sparse(void) {
    Array3D shape = {16384, 16384, 0, 0x20, 1, 0x40};
    struct { int kind, handles, place, device; void *metadata; unsigned char flags[8]; } on_device = {1, 0, 1, 0, NULL, {0}};
    void *array;
    int count = 0, code;
    u64 handle;
    open_primary();
    MUST(cuArray3DCreate_v2, (void **, const Array3D *), &array, &shape);
    while (!(code = CALL(cuMemCreate, (u64 *, size_t, const void *, u64), &handle, BLOCK, &on_device, 0))) {
        Binding binding = {.array = array, .region = {0, count}, .operation = 1, .handle = handle, .devices = 1};
        MUST(cuMemMapArrayAsync, (Binding *, unsigned, void *), &binding, 1, NULL);
        MUST(cuMemRelease, (u64), handle);
        count++;
    }
    say("sparse", count, code);
    Binding away = {.array = array, .region = {0, 0}, .operation = 2, .devices = 1};
    MUST(cuMemMapArrayAsync, (Binding *, unsigned, void *), &away, 1, NULL);
    pause_here();
    MUST(cuArrayDestroy, (void *), array);
    pause_here();
}

// Binds memory to a multicast object, lets go of it, and takes more until that is refused. Every other piece is bound by its address, and
// where it is told so, for a device.
static void multicast(int of_device) {
    struct { unsigned devices; size_t size; u64 handles, flags; } properties = {1, 1ul << 30, 0, 0};
    struct { int kind, handles, place, device; void *metadata; unsigned char flags[8]; } on_device = {1, 0, 1, 0, NULL, {0}};
    u64 object, handle, address;
    size_t at = 0;
    int count = 0, code;
    open_primary();
    MUST(cuMulticastCreate, (u64 *, const void *), &object, &properties);
    MUST(cuMulticastAddDevice, (u64, int), object, 0);
    MUST(cuMemAddressReserve, (u64 *, size_t, size_t, u64, u64), &address, BLOCK, 0, 0, 0);
    for (; !(code = CALL(cuMemCreate, (u64 *, size_t, const void *, u64), &handle, BLOCK, &on_device, 0)); at += BLOCK, count++) {
        if (count % 2) {
            MUST(cuMemMap, (u64, size_t, size_t, u64, u64), address, BLOCK, 0, handle, 0);
            if (of_device) MUST(cuMulticastBindAddr_v2, (u64, int, size_t, u64, size_t, u64), object, 0, at, address, BLOCK, 0);
            else MUST(cuMulticastBindAddr, (u64, size_t, u64, size_t, u64), object, at, address, BLOCK, 0);
            MUST(cuMemUnmap, (u64, size_t), address, BLOCK);
        } else if (of_device) MUST(cuMulticastBindMem_v2, (u64, int, size_t, u64, size_t, size_t, u64), object, 0, at, handle, 0, BLOCK, 0);
        else MUST(cuMulticastBindMem, (u64, size_t, u64, size_t, size_t, u64), object, at, handle, 0, BLOCK, 0);
        MUST(cuMemRelease, (u64), handle);
    }
    say("multicast", count, code);
    MUST(cuMulticastUnbind, (u64, int, size_t, size_t), object, 0, BLOCK, BLOCK);
    pause_here();
    MUST(cuMemRelease, (u64), object);
    pause_here();
}

// Takes from a pool of a device; destroys it while that is still there.
static void pool(int device) {
    Pool of_device = {1, 0, 1, device, NULL, 0, 0, {0}};
    void *made;
    int count = 0, code;
    u64 pointer;
    open_primary();
    MUST(cuMemPoolCreate, (void **, const Pool *), &made, &of_device);
    while (count < 12 && !(code = CALL(cuMemAllocFromPoolAsync, (u64 *, size_t, void *, void *), &pointer, BLOCK, made, NULL))) count++;
    say("pool", count, code);
    pause_here();
    MUST(cuMemPoolDestroy, (void *), made);
    pause_here();
}

// Takes from the device's pool, gives that back, and takes as much as it gets; says what the pool has then.
static void pieces(void) {
    void *pool;
    u64 pointers[200], reserved;
    int count = 0, code = 0;
    open_primary();
    MUST(cuDeviceGetMemPool, (void **, int), &pool, 0);
    for (int at = 0; at < 4; at++) MUST(cuMemAllocAsync, (u64 *, size_t, void *), &pointers[at], BLOCK, NULL);
    for (int at = 0; at < 4; at++) MUST(cuMemFreeAsync, (u64, void *), pointers[at], NULL);
    while (count < 200 && !(code = CALL(cuMemAllocAsync, (u64 *, size_t, void *), &pointers[count], BLOCK, NULL))) count++;
    MUST(cuMemPoolGetAttribute, (void *, int, u64 *), pool, 5, &reserved);
    say("pieces", reserved, code);
    fill("plain");
    pause_here();
}

// Leaves gaps in the device's pool and takes again as much as it gets; says what the pool has then, and the most that it ever had.
static void gaps(void) {
    void *pool;
    u64 pointers[5], more, now, most;
    int code = 0;
    open_primary();
    MUST(cuDeviceGetMemPool, (void **, int), &pool, 0);
    for (int at = 0; at < 4; at++) MUST(cuMemAllocAsync, (u64 *, size_t, void *), &pointers[at], BLOCK, NULL);
    MUST(cuMemAllocAsync, (u64 *, size_t, void *), &pointers[4], 12 * MIB, NULL);
    MUST(cuMemFreeAsync, (u64, void *), pointers[0], NULL);
    while (!(code = CALL(cuMemAllocAsync, (u64 *, size_t, void *), &more, BLOCK, NULL)));
    MUST(cuMemPoolGetAttribute, (void *, int, u64 *), pool, 5, &now);
    MUST(cuMemPoolGetAttribute, (void *, int, u64 *), pool, 6, &most);
    say("gaps", now / MIB, code);
    say("most", most / MIB, 0);
    pause_here();
}

// Takes a little from more pools than anybody needs.
static void pools(void) {
    Pool of_device = {1, 0, 1, 0, NULL, 0, 0, {0}};
    void *made;
    int count = 0, code = 0;
    u64 pointer;
    open_primary();
    for (; count < 100 && !code; count += !code) {
        MUST(cuMemPoolCreate, (void **, const Pool *), &made, &of_device);
        code = CALL(cuMemAllocFromPoolAsync, (u64 *, size_t, void *, void *), &pointer, 512, made, NULL);
    }
    say("pools", count, code);
}

// Uploads a graph that allocates, without launching it.
static void upload(void) {
    void *stream, *captured, *ready;
    u64 pieces[12];
    int times = 0, code = 0;
    open_primary();
    MUST(cuStreamCreate, (void **, unsigned), &stream, 1);
    MUST(cuStreamBeginCapture_v2, (void *, int), stream, 0);
    for (int at = 0; at < 12; at++) MUST(cuMemAllocAsync, (u64 *, size_t, void *), &pieces[at], BLOCK, stream);
    MUST(cuStreamEndCapture, (void *, void **), stream, &captured);
    MUST(cuGraphInstantiateWithFlags, (void **, void *, u64), &ready, captured, 0);
    while (times < 5 && !(code = CALL(cuGraphUpload, (void *, void *), ready, stream))) times++;
    say("upload", times, code);
    struct { u64 flags; void *stream, *node; unsigned result; } how = {0};
    for (int way = 0; way < 5; way++) {
        ready = NULL;
        if (way == 0) MUST(cuGraphInstantiate, (void **, void *, void **, char *, size_t), &ready, captured, NULL, NULL, 0);
        if (way == 1) MUST(cuGraphInstantiate_v2, (void **, void *, void **, char *, size_t), &ready, captured, NULL, NULL, 0);
        if (way == 2) MUST(cuGraphInstantiateWithFlags, (void **, void *, u64), &ready, captured, 0);
        if (way == 3) MUST(cuGraphInstantiateWithParams, (void **, void *, void *), &ready, captured, &how);
        if (way == 4) MUST(cuGraphInstantiateWithParams_ptsz, (void **, void *, void *), &ready, captured, &how);
        say("instantiate", way, CALL(cuGraphUpload, (void *, void *), ready, stream));
    }
    how.flags = 2;
    say("instantiate", 5, CALL(cuGraphInstantiateWithParams, (void **, void *, void *), &ready, captured, &how));
    say("instantiate", 6, CALL(cuGraphInstantiateWithParams_ptsz, (void **, void *, void *), &ready, captured, &how));
    pause_here();
}

// Launches a graph whose nodes allocate, added in one of the ways there are; says how often that went well of 5 times.
static void graph_nodes(int way) {
    typedef struct { Pool pool; void *access; size_t accesses, bytes; u64 address; } Allocation;
    typedef struct { unsigned kind, reserved[3]; union { long long room[29]; Allocation allocation; } of; long long more; } Node;
    void *graph, *node, *ready, *stream;
    u64 addresses[12];
    int times = 0, code = 0;
    open_primary();
    MUST(cuStreamCreate, (void **, unsigned), &stream, 1);
    MUST(cuGraphCreate, (void **, unsigned), &graph, 0);
    for (int at = 0; at < 12; at++) {
        Allocation wanted = {{1, 0, 1, 0, NULL, 0, 0, {0}}, NULL, 0, BLOCK, 0};
        Node any = {.kind = 10, .of.allocation = wanted};
        if (way == 0) MUST(cuGraphAddMemAllocNode, (void **, void *, const void *, size_t, Allocation *), &node, graph, NULL, 0, &wanted);
        if (way == 1) MUST(cuGraphAddNode, (void **, void *, const void *, size_t, Node *), &node, graph, NULL, 0, &any);
        if (way == 2) MUST(cuGraphAddNode_v2, (void **, void *, const void *, const void *, size_t, Node *), &node, graph, NULL, NULL, 0, &any);
        if (way == 3) MUST(cuGraphAddNode_v3, (void **, void *, const void *, const void *, size_t, Node *), &node, graph, NULL, NULL, 0, &any);
        addresses[at] = way ? any.of.allocation.address : wanted.address;
    }
    for (int at = 0; at < 12; at++) MUST(cuGraphAddMemFreeNode, (void **, void *, const void *, size_t, u64), &node, graph, &node, 1, addresses[at]);
    MUST(cuGraphInstantiateWithFlags, (void **, void *, u64), &ready, graph, 0);
    for (; times < 5 && !(code = CALL(cuGraphLaunch, (void *, void *), ready, stream)); times++) MUST(cuStreamSynchronize, (void *), stream);
    say("graph-nodes", times, code);
    pause_here();
}

// Captures three pieces of work in every way there is, and runs one after each; says how many nodes there are, and how many are no kernels.
static void captures(void) {
    int list = 0;
    u64 nanoseconds = 1000000;
    struct { void *affinity; int number; void *graphics; } beside = {NULL, 0, &list};
    struct { void *list; } into = {&list};
    void *stream, *other, *graph = NULL, *nodes[64], *arguments[] = {&nanoseconds};
    MUST(cuCtxCreate_v4, (void **, void *, unsigned, int), &context, &beside, 0, 0);
    void *function = spin();
    MUST(cuStreamCreate, (void **, unsigned), &stream, 1);
    MUST(cuStreamCreate, (void **, unsigned), &other, 1);
    for (int way = 0; way < 6; way++) {
        size_t number = 64, others = 0;
        if (way == 0) MUST(cuStreamBeginCapture, (void *), stream);
        if (way == 1 || way == 5) MUST(cuStreamBeginCapture_v2, (void *, int), stream, 0);
        if (way == 2) MUST(cuStreamBeginRecaptureToGraph, (void *, int, void *, void *, void *), stream, 0, graph, NULL, NULL);
        if (way == 3) MUST(cuStreamBeginCaptureToGraph, (void *, void *, const void *, const void *, size_t, int), stream, graph, NULL, NULL, 0, 0);
        if (way == 4) MUST(cuStreamBeginCaptureToCig, (void *, void *), stream, &into);
        // One that is not there can not be ended, and the one that is goes on.
        if (way == 5 && !CALL(cuStreamEndCapture, (void *, void **), other, &nodes[0])) must("ended", 1);
        for (int one = 0; one < 3; one++) MUST(cuLaunchKernel, LAUNCH, function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
        if (way == 4) MUST(cuStreamEndCaptureToCig, (void *), stream); else MUST(cuStreamEndCapture, (void *, void **), stream, &graph);
        MUST(cuGraphGetNodes, (void *, void **, size_t *), graph, nodes, &number);
        for (size_t at = 0; at < number; at++) { int kind; MUST(cuGraphNodeGetType, (void *, int *), nodes[at], &kind); others += kind != 0; }
        say("captured", number, others);
        MUST(cuLaunchKernel, LAUNCH, function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
        MUST(cuStreamSynchronize, (void *), stream);
    }
    pause_here();
    MUST(cuLaunchKernel, LAUNCH, function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
    pause_here();
}

// Launches on two devices at once, the other one first; says how many pieces of a millisecond there were in how many microseconds.
static void several_devices(void) {
    struct { void *function; unsigned grid[3], block[3], shared; void *stream, **arguments; } both[2];
    u64 nanoseconds = 1000000;
    void *arguments[] = {&nanoseconds};
    long pieces = 0;
    for (int at = 0; at < 2; at++) {
        MUST(cuDevicePrimaryCtxRetain, (void **, int), &context, 1 - at);
        MUST(cuCtxSetCurrent, (void *), context);
        memset(&both[at], 0, sizeof both[at]);
        both[at].function = spin();
        both[at].grid[0] = both[at].grid[1] = both[at].grid[2] = both[at].block[1] = both[at].block[2] = 1;
        both[at].block[0] = 32;
        both[at].arguments = arguments;
        MUST(cuStreamCreate, (void **, unsigned), &both[at].stream, 1);
    }
    u64 begin = now();
    while (now() < begin + 1000000000ull) {
        for (int one = 0; one < 4; one++, pieces++) MUST(cuLaunchCooperativeKernelMultiDevice, (void *, unsigned, unsigned), both, 2, 0);
        MUST(cuStreamSynchronize, (void *), both[1].stream);
    }
    say("several-devices", pieces, (now() - begin) / 1000);
}

int main(int number, char **ways) {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return 2;
    MUST(cuInit, (unsigned), 0);
    for (int at = 1; at < number; at++) {
        if (!strcmp(ways[at], "old-memory")) old_memory();
        else if (!strcmp(ways[at], "old-arrays")) old_arrays();
        else if (!strcmp(ways[at], "old-contexts")) old_contexts();
        else if (!strcmp(ways[at], "old-launches")) old_launches();
        else if (!strcmp(ways[at], "green")) green(0);
        else if (!strcmp(ways[at], "green-launches")) green(1);
        else if (!strcmp(ways[at], "heap")) heap();
        else if (!strcmp(ways[at], "sparse")) sparse();
        else if (!strcmp(ways[at], "multicast")) multicast(0);
        else if (!strcmp(ways[at], "multicast-of-device")) multicast(1);
        else if (!strcmp(ways[at], "other-contexts")) other_contexts();
        else if (!strcmp(ways[at], "old-release")) old_primary(0);
        else if (!strcmp(ways[at], "old-reset")) old_primary(1);
        else if (!strncmp(ways[at], "graph-nodes-", 12)) graph_nodes(atoi(ways[at] + 12));
        else if (!strcmp(ways[at], "captures")) captures();
        else if (!strcmp(ways[at], "several-devices")) several_devices();
        else if (!strcmp(ways[at], "pool")) pool(0);
        else if (!strcmp(ways[at], "pool-of-other")) pool(1);
        else if (!strcmp(ways[at], "gaps")) gaps();
        else if (!strcmp(ways[at], "pieces")) pieces();
        else if (!strcmp(ways[at], "pools")) pools();
        else if (!strcmp(ways[at], "upload")) upload();
        else if (!strcmp(ways[at], "pause")) pause_here();
        else must(ways[at], 404);
    }
    return 0;
}
