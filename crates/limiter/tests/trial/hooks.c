// A program that calls every function that the limiter stands in for.
//
//     hooks          calls each at least once so that it succeeds
//     hooks full     fills the container's memory, and calls those that take some
//     hooks starved  fills the limiter's ledger, and calls those that need it
//
// After each such call it says what it was answered, whose function that was, and what the call should have added to the container's count: so
// many MiB of memory, so many pieces of work. Then it waits until somebody has looked.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef uint64_t u64;
typedef struct { int type, handles, place, device; void *security; size_t most; unsigned short usage; unsigned char rest[54]; } Pool;
typedef struct { size_t width, height, depth; unsigned format, channels, flags; } Array3D;
typedef struct { unsigned resource; void *array; unsigned subresource; u64 region[4]; unsigned operation, kind; u64 handle, offset; unsigned devices, flags, reserved[2]; } Binding;
typedef struct { Pool pool; void *access; size_t accesses, bytes; u64 address; } Allocation;
typedef struct { unsigned kind, reserved[3]; union { long long room[29]; Allocation allocation; } of; long long more; } Node;
typedef struct { void *function; unsigned grid[3], block[3], shared; void *stream, **arguments; } OnDevice;
typedef struct { unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned number; } Config;

#define MIB (1ul << 20)
#define BLOCK (8 * MIB)
// What a context takes, in MiB, as the limits say.
#define CONTEXT 4
// What a pool takes at a time, that of graphs too.
#define POOL 32

static void *library, *operators, *context, *stream, *function;
static u64 nanoseconds = 1000, pointer, address;
static void *arguments[] = {&nanoseconds};

static void *find(const char *name) {
    void *found = dlsym(strncmp(name, "nvml", 4) ? library : operators, name);
    if (!found) { printf("%s is not there\n", name); exit(3); }
    return found;
}

// Says what came of a call, and of whose function, and waits.
static void look(const char *name, int code, long memory, long work) {
    Dl_info info;
    char line[16];
    const char *file = dladdr(find(name), &info) ? strrchr(info.dli_fname, '/') : NULL;
    printf("%s %d %s %ld %ld\n", name, code, file ? file + 1 : "?", memory, work);
    fflush(stdout);
    if (!fgets(line, 16, stdin)) exit(4);
}

#define CALL(name, parameters, ...) (((int (*) parameters)find(#name))(__VA_ARGS__))
#define MUST(name, parameters, ...) do { int code = CALL(name, parameters, __VA_ARGS__); if (code) { printf("%s answers %d\n", #name, code); exit(3); } } while (0)
#define HOOK(memory, work, name, parameters, ...) look(#name, CALL(name, parameters, __VA_ARGS__), memory, work)

#define SHAPE unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned
#define ONE 1, 1, 1, 32, 1, 1, 0

static void open_primary(void) {
    HOOK(CONTEXT, 0, cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
    MUST(cuCtxSetCurrent, (void *), context);
}

static void contexts(void) {
    void *made, *green;
    struct { void *affinity; int number; void *graphics; } none = {0};
    open_primary();
    HOOK(-CONTEXT, 0, cuDevicePrimaryCtxRelease, (int), 0);
    open_primary();
    HOOK(-CONTEXT, 0, cuDevicePrimaryCtxRelease_v2, (int), 0);
    open_primary();
    HOOK(-CONTEXT, 0, cuDevicePrimaryCtxReset, (int), 0);
    open_primary();
    HOOK(-CONTEXT, 0, cuDevicePrimaryCtxReset_v2, (int), 0);
    HOOK(CONTEXT, 0, cuCtxCreate, (void **, unsigned, int), &made, 0, 0);
    HOOK(-CONTEXT, 0, cuCtxDestroy, (void *), made);
    HOOK(CONTEXT, 0, cuCtxCreate_v2, (void **, unsigned, int), &made, 0, 0);
    HOOK(-CONTEXT, 0, cuCtxDestroy_v2, (void *), made);
    HOOK(CONTEXT, 0, cuCtxCreate_v3, (void **, void *, int, unsigned, int), &made, NULL, 0, 0, 0);
    HOOK(-CONTEXT, 0, cuCtxDestroy_v2, (void *), made);
    HOOK(CONTEXT, 0, cuCtxCreate_v4, (void **, void *, unsigned, int), &made, &none, 0, 0);
    HOOK(-CONTEXT, 0, cuCtxDestroy_v2, (void *), made);
    HOOK(CONTEXT, 0, cuGLCtxCreate, (void **, unsigned, int), &made, 0, 0);
    HOOK(-CONTEXT, 0, cuCtxDestroy_v2, (void *), made);
    HOOK(CONTEXT, 0, cuGLCtxCreate_v2, (void **, unsigned, int), &made, 0, 0);
    HOOK(-CONTEXT, 0, cuCtxDestroy_v2, (void *), made);
    HOOK(CONTEXT, 0, cuVDPAUCtxCreate, (void **, unsigned, int, unsigned, void *), &made, 0, 0, 1, NULL);
    HOOK(-CONTEXT, 0, cuCtxDestroy_v2, (void *), made);
    HOOK(CONTEXT, 0, cuVDPAUCtxCreate_v2, (void **, unsigned, int, unsigned, void *), &made, 0, 0, 1, NULL);
    HOOK(0, 0, cuCtxAttach, (void **, unsigned), &made, 0);
    HOOK(0, 0, cuCtxDetach, (void *), made);
    HOOK(-CONTEXT, 0, cuCtxDetach, (void *), made);
    HOOK(CONTEXT, 0, cuGreenCtxCreate, (void **, void *, int, unsigned), &green, &none, 0, 1);
    HOOK(-CONTEXT, 0, cuGreenCtxDestroy, (void *), green);
}

static void tells(void) {
    size_t left, all;
    unsigned old_left, old_all;
    int status;
    void *found;
    HOOK(0, 0, cuGetProcAddress, (const char *, void **, int, u64), "cuInit", &found, 12000, 0);
    HOOK(0, 0, cuGetProcAddress_v2, (const char *, void **, int, u64, int *), "cuInit", &found, 12000, 0, &status);
    HOOK(0, 0, cuMemGetInfo_v2, (size_t *, size_t *), &left, &all);
    HOOK(0, 0, cuDeviceTotalMem_v2, (size_t *, int), &all, 0);
    HOOK(0, 0, cuMemGetInfo, (unsigned *, unsigned *), &old_left, &old_all);
    HOOK(0, 0, cuDeviceTotalMem, (unsigned *, int), &old_all, 0);
    // A heap of kernels that has 8 MiB at first.
    HOOK(8, 0, cuCtxSetLimit, (int, size_t), 2, 2 * BLOCK);
    HOOK(-8, 0, cuCtxSetLimit, (int, size_t), 2, BLOCK);
}

static void nvml(void) {
    struct { u64 total, free, used; } first;
    struct { unsigned version; u64 total, reserved, free, used; } second = {.version = sizeof second | 2 << 24};
    char uuid[96];
    void *device;
    operators = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!operators) exit(2);
    MUST(nvmlInit_v2, (void), );
    MUST(nvmlDeviceGetHandleByIndex_v2, (unsigned, void **), 0, &device);
    HOOK(0, 0, nvmlDeviceGetUUID, (void *, char *, unsigned), device, uuid, sizeof uuid);
    HOOK(0, 0, nvmlDeviceGetMemoryInfo, (void *, void *), device, &first);
    HOOK(0, 0, nvmlDeviceGetMemoryInfo_v2, (void *, void *), device, &second);
}

static void plain(void) {
    size_t pitch;
    unsigned old, old_pitch;
    HOOK(8, 0, cuMemAlloc_v2, (u64 *, size_t), &pointer, BLOCK);
    HOOK(-8, 0, cuMemFree_v2, (u64), pointer);
    HOOK(8, 0, cuMemAllocPitch_v2, (u64 *, size_t *, size_t, size_t, unsigned), &pointer, &pitch, 4096, 2048, 4);
    HOOK(-8, 0, cuMemFree_v2, (u64), pointer);
    HOOK(8, 0, cuMemAllocManaged, (u64 *, size_t, unsigned), &pointer, BLOCK, 1);
    HOOK(-8, 0, cuMemFree_v2, (u64), pointer);
    HOOK(8, 0, cuMemAlloc, (unsigned *, unsigned), &old, BLOCK);
    HOOK(-8, 0, cuMemFree, (unsigned), old);
    HOOK(8, 0, cuMemAllocPitch, (unsigned *, unsigned *, unsigned, unsigned, unsigned), &old, &old_pitch, 4096, 2048, 4);
    HOOK(-8, 0, cuMemFree, (unsigned), old);
}

static void arrays(void) {
    struct { size_t width, height; unsigned format, channels; } flat = {1024, 2048, 0x20, 1};
    struct { unsigned width, height, format, channels; } old_flat = {1024, 2048, 0x20, 1};
    struct { unsigned width, height, depth, format, channels, flags; } old_deep = {1024, 1024, 2, 0x20, 1, 0};
    Array3D deep = {1024, 1024, 2, 0x20, 1, 0};
    void *array;
    HOOK(8, 0, cuArrayCreate_v2, (void **, const void *), &array, &flat);
    HOOK(-8, 0, cuArrayDestroy, (void *), array);
    HOOK(8, 0, cuArray3DCreate_v2, (void **, const void *), &array, &deep);
    HOOK(-8, 0, cuArrayDestroy, (void *), array);
    HOOK(8, 0, cuArrayCreate, (void **, const void *), &array, &old_flat);
    HOOK(-8, 0, cuArrayDestroy, (void *), array);
    HOOK(8, 0, cuArray3DCreate, (void **, const void *), &array, &old_deep);
    HOOK(-8, 0, cuArrayDestroy, (void *), array);
    HOOK(8, 0, cuMipmappedArrayCreate, (void **, const void *, unsigned), &array, &deep, 1);
    HOOK(-8, 0, cuMipmappedArrayDestroy, (void *), array);
}

static u64 create(void) {
    struct { int kind, handles, place, device; void *metadata; unsigned char flags[8]; } on_device = {1, 0, 1, 0, NULL, {0}};
    u64 handle;
    HOOK(8, 0, cuMemCreate, (u64 *, size_t, const void *, u64), &handle, BLOCK, &on_device, 0);
    return handle;
}

static void physical(void) {
    u64 handle = create(), same;
    MUST(cuMemAddressReserve, (u64 *, size_t, size_t, u64, u64), &address, BLOCK, 0, 0, 0);
    HOOK(0, 0, cuMemMap, (u64, size_t, size_t, u64, u64), address, BLOCK, 0, handle, 0);
    HOOK(0, 0, cuMemRetainAllocationHandle, (u64 *, u64), &same, address);
    HOOK(0, 0, cuMemRelease, (u64), handle);
    HOOK(0, 0, cuMemRelease, (u64), same);
    HOOK(-8, 0, cuMemUnmap, (u64, size_t), address, BLOCK);
}

static void sparse(void) {
    Array3D wanted = {4096, 4096, 0, 0x20, 1, 0x40};
    Binding bind = {.operation = 1, .devices = 1}, unbind;
    HOOK(0, 0, cuArray3DCreate_v2, (void **, const void *), &bind.array, &wanted);
    bind.handle = create();
    HOOK(0, 0, cuMemMapArrayAsync, (const void *, unsigned, void *), &bind, 1, NULL);
    HOOK(0, 0, cuMemRelease, (u64), bind.handle);
    unbind = bind;
    unbind.operation = 2;
    HOOK(-8, 0, cuMemMapArrayAsync, (const void *, unsigned, void *), &unbind, 1, NULL);
    bind.handle = create();
    HOOK(0, 0, cuMemMapArrayAsync_ptsz, (const void *, unsigned, void *), &bind, 1, NULL);
    HOOK(0, 0, cuMemRelease, (u64), bind.handle);
    HOOK(-8, 0, cuMemMapArrayAsync_ptsz, (const void *, unsigned, void *), &unbind, 1, NULL);
    HOOK(0, 0, cuArrayDestroy, (void *), bind.array);
}

static void unbind(u64 object) { HOOK(-8, 0, cuMulticastUnbind, (u64, int, size_t, size_t), object, 0, 0, BLOCK); }

static u64 mapped(void) {
    u64 handle = create();
    HOOK(0, 0, cuMemMap, (u64, size_t, size_t, u64, u64), address, BLOCK, 0, handle, 0);
    HOOK(0, 0, cuMemRelease, (u64), handle);
    return address;
}

static void multicast(void) {
    struct { unsigned devices; size_t size; u64 handles, flags; } properties = {1, 1ul << 30, 0, 0};
    u64 object, handle;
    HOOK(0, 0, cuMulticastCreate, (u64 *, const void *), &object, &properties);
    MUST(cuMulticastAddDevice, (u64, int), object, 0);
    handle = create();
    HOOK(0, 0, cuMulticastBindMem, (u64, size_t, u64, size_t, size_t, u64), object, 0, handle, 0, BLOCK, 0);
    HOOK(0, 0, cuMemRelease, (u64), handle);
    unbind(object);
    handle = create();
    HOOK(0, 0, cuMulticastBindMem_v2, (u64, int, size_t, u64, size_t, size_t, u64), object, 0, 0, handle, 0, BLOCK, 0);
    HOOK(0, 0, cuMemRelease, (u64), handle);
    unbind(object);
    HOOK(0, 0, cuMulticastBindAddr, (u64, size_t, u64, size_t, u64), object, 0, mapped(), BLOCK, 0);
    HOOK(0, 0, cuMemUnmap, (u64, size_t), address, BLOCK);
    unbind(object);
    HOOK(0, 0, cuMulticastBindAddr_v2, (u64, int, size_t, u64, size_t, u64), object, 0, 0, mapped(), BLOCK, 0);
    HOOK(0, 0, cuMemUnmap, (u64, size_t), address, BLOCK);
    unbind(object);
    HOOK(0, 0, cuMemRelease, (u64), object);
}

static void trim(void *pool) {
    MUST(cuCtxSynchronize, (void), );
    HOOK(-POOL, 0, cuMemPoolTrimTo, (void *, size_t), pool, 0);
}

static void pools(void) {
    Pool of_device = {1, 0, 1, 0, NULL, 0, 0, {0}};
    struct { int kind, number; } place = {1, 0};
    void *first, *made;
    MUST(cuDeviceGetMemPool, (void **, int), &first, 0);
    HOOK(0, 0, cuMemPoolCreate, (void **, const Pool *), &made, &of_device);
    HOOK(POOL, 0, cuMemAllocFromPoolAsync, (u64 *, size_t, void *, void *), &pointer, BLOCK, made, NULL);
    HOOK(0, 0, cuMemFreeAsync, (u64, void *), pointer, NULL);
    trim(made);
    HOOK(POOL, 0, cuMemAllocFromPoolAsync_ptsz, (u64 *, size_t, void *, void *), &pointer, BLOCK, made, NULL);
    HOOK(0, 0, cuMemFreeAsync_ptsz, (u64, void *), pointer, NULL);
    trim(made);
    HOOK(0, 0, cuDeviceSetMemPool, (int, void *), 0, made);
    HOOK(POOL, 0, cuMemAllocAsync, (u64 *, size_t, void *), &pointer, BLOCK, NULL);
    HOOK(0, 0, cuMemFreeAsync, (u64, void *), pointer, NULL);
    trim(made);
    HOOK(0, 0, cuMemSetMemPool, (const void *, int, void *), &place, 1, made);
    HOOK(POOL, 0, cuMemAllocAsync_ptsz, (u64 *, size_t, void *), &pointer, BLOCK, NULL);
    HOOK(0, 0, cuMemFreeAsync_ptsz, (u64, void *), pointer, NULL);
    trim(made);
    HOOK(0, 0, cuDeviceSetMemPool, (int, void *), 0, first);
    HOOK(0, 0, cuMemPoolDestroy, (void *), made);
}

static void load(void) {
    void *module;
    MUST(cuModuleLoadData, (void **, const void *), &module, ".version 6.0\n.visible .entry spin(.param .u64 ns) { ret; }");
    MUST(cuModuleGetFunction, (void **, void *, const char *), &function, module, "spin");
    MUST(cuStreamCreate, (void **, unsigned), &stream, 1);
}

static void launches(void) {
    Config config = {{1, 1, 1}, {32, 1, 1}, 0, stream, NULL, 0};
    OnDevice one = {function, {1, 1, 1}, {32, 1, 1}, 0, stream, arguments};
    void *other;
    HOOK(0, 1, cuLaunchKernel, (void *, SHAPE, void *, void **, void **), function, ONE, stream, arguments, NULL);
    HOOK(0, 1, cuLaunchKernel_ptsz, (void *, SHAPE, void *, void **, void **), function, ONE, NULL, arguments, NULL);
    HOOK(0, 1, cuLaunchKernelEx, (const Config *, void *, void **, void **), &config, function, arguments, NULL);
    HOOK(0, 1, cuLaunchKernelEx_ptsz, (const Config *, void *, void **, void **), &config, function, arguments, NULL);
    HOOK(0, 1, cuLaunchCooperativeKernel, (void *, SHAPE, void *, void **), function, ONE, stream, arguments);
    HOOK(0, 1, cuLaunchCooperativeKernel_ptsz, (void *, SHAPE, void *, void **), function, ONE, stream, arguments);
    HOOK(0, 1, cuLaunchCooperativeKernelMultiDevice, (OnDevice *, unsigned, unsigned), &one, 1, 0);
    MUST(cuFuncSetBlockShape, (void *, int, int, int), function, 32, 1, 1);
    MUST(cuParamSetSize, (void *, unsigned), function, 8);
    MUST(cuParamSetv, (void *, int, void *, unsigned), function, 0, &nanoseconds, 8);
    HOOK(0, 1, cuLaunch, (void *), function);
    HOOK(0, 1, cuLaunchGrid, (void *, int, int), function, 1, 1);
    HOOK(0, 1, cuLaunchGridAsync, (void *, int, int, void *), function, 1, 1, stream);
    MUST(cuStreamCreate, (void **, unsigned), &other, 1);
    HOOK(0, 1, cuLaunchKernel, (void *, SHAPE, void *, void **, void **), function, ONE, other, arguments, NULL);
    HOOK(0, 0, cuStreamDestroy_v2, (void *), other);
    MUST(cuStreamCreate, (void **, unsigned), &other, 1);
    HOOK(0, 1, cuLaunchKernel, (void *, SHAPE, void *, void **, void **), function, ONE, other, arguments, NULL);
    HOOK(0, 0, cuStreamDestroy, (void *), other);
}

// What is captured is no work yet.
static void captured(void) { HOOK(0, 0, cuLaunchKernel, (void *, SHAPE, void *, void **, void **), function, ONE, stream, arguments, NULL); }

static void *end(void) {
    void *graph;
    captured();
    HOOK(0, 0, cuStreamEndCapture, (void *, void **), stream, &graph);
    return graph;
}

static void *end_too(void) {
    void *graph;
    captured();
    HOOK(0, 0, cuStreamEndCapture_ptsz, (void *, void **), stream, &graph);
    return graph;
}

static void captures(void) {
    void *graph, *ready;
    HOOK(0, 0, cuStreamBeginCapture, (void *), stream);
    end();
    HOOK(0, 0, cuStreamBeginCapture_ptsz, (void *), stream);
    end_too();
    HOOK(0, 0, cuStreamBeginCapture_v2, (void *, int), stream, 0);
    end();
    HOOK(0, 0, cuStreamBeginCapture_v2_ptsz, (void *, int), stream, 0);
    graph = end_too();
    HOOK(0, 0, cuStreamBeginRecaptureToGraph, (void *, int, void *, void *, void *), stream, 0, graph, NULL, NULL);
    end();
    HOOK(0, 0, cuStreamBeginRecaptureToGraph_ptsz, (void *, int, void *, void *, void *), stream, 0, graph, NULL, NULL);
    end_too();
    HOOK(0, 0, cuStreamBeginCaptureToGraph, (void *, void *, const void *, const void *, size_t, int), stream, graph, NULL, NULL, 0, 0);
    end();
    HOOK(0, 0, cuStreamBeginCaptureToGraph_ptsz, (void *, void *, const void *, const void *, size_t, int), stream, graph, NULL, NULL, 0, 0);
    end_too();
    HOOK(0, 0, cuGraphInstantiateWithFlags, (void **, void *, u64), &ready, graph, 0);
    HOOK(0, 1, cuGraphLaunch, (void *, void *), ready, stream);
    HOOK(0, 1, cuGraphLaunch_ptsz, (void *, void *), ready, stream);
}

// In a context beside a graphics library.
static void command_lists(void) {
    int list = 0;
    struct { void *affinity; int number; void *graphics; } beside = {NULL, 0, &list};
    struct { void *list; } into = {&list};
    void *made;
    HOOK(CONTEXT, 0, cuCtxCreate_v4, (void **, void *, unsigned, int), &made, &beside, 0, 0);
    load();
    HOOK(0, 0, cuStreamBeginCaptureToCig, (void *, void *), stream, &into);
    captured();
    HOOK(0, 0, cuStreamEndCaptureToCig, (void *), stream);
    HOOK(0, 0, cuStreamBeginCaptureToCig_ptsz, (void *, void *), stream, &into);
    captured();
    HOOK(0, 0, cuStreamEndCaptureToCig_ptsz, (void *), stream);
    HOOK(0, 1, cuLaunchKernel, (void *, SHAPE, void *, void **, void **), function, ONE, stream, arguments, NULL);
    HOOK(-CONTEXT, 0, cuCtxDestroy_v2, (void *), made);
    MUST(cuCtxSetCurrent, (void *), context);
    load();
}

static void *new_graph(void) {
    void *graph;
    MUST(cuGraphCreate, (void **, unsigned), &graph, 0);
    return graph;
}

static void freed(void *graph, void *node, u64 where) {
    void *last;
    MUST(cuGraphAddMemFreeNode, (void **, void *, const void *, size_t, u64), &last, graph, &node, 1, where);
}

static void trim_graphs(void) {
    MUST(cuCtxSynchronize, (void), );
    HOOK(-POOL, 0, cuDeviceGraphMemTrim, (int), 0);
}

// Graphs take memory when they are uploaded or launched, and the device has it back when it asks for it.
static void graphs(void) {
    Allocation wanted = {{1, 0, 1, 0, NULL, 0, 0, {0}}, NULL, 0, BLOCK, 0};
    Node first = {.kind = 10, .of.allocation = wanted}, second = first, third = first;
    struct { u64 flags; void *stream, *node; unsigned result; } how = {0};
    void *graph, *node, *ready;
    graph = new_graph();
    HOOK(0, 0, cuGraphAddMemAllocNode, (void **, void *, const void *, size_t, Allocation *), &node, graph, NULL, 0, &wanted);
    freed(graph, node, wanted.address);
    HOOK(0, 0, cuGraphInstantiate, (void **, void *, void **, char *, size_t), &ready, graph, NULL, NULL, 0);
    HOOK(POOL, 1, cuGraphLaunch, (void *, void *), ready, stream);
    HOOK(0, 0, cuGraphExecDestroy, (void *), ready);
    trim_graphs();
    graph = new_graph();
    HOOK(0, 0, cuGraphAddNode, (void **, void *, const void *, size_t, Node *), &node, graph, NULL, 0, &first);
    freed(graph, node, first.of.allocation.address);
    HOOK(0, 0, cuGraphInstantiate_v2, (void **, void *, void **, char *, size_t), &ready, graph, NULL, NULL, 0);
    HOOK(POOL, 0, cuGraphUpload, (void *, void *), ready, stream);
    trim_graphs();
    graph = new_graph();
    HOOK(0, 0, cuGraphAddNode_v2, (void **, void *, const void *, const void *, size_t, Node *), &node, graph, NULL, NULL, 0, &second);
    freed(graph, node, second.of.allocation.address);
    HOOK(0, 0, cuGraphInstantiateWithParams, (void **, void *, void *), &ready, graph, &how);
    HOOK(POOL, 0, cuGraphUpload_ptsz, (void *, void *), ready, stream);
    trim_graphs();
    graph = new_graph();
    HOOK(0, 0, cuGraphAddNode_v3, (void **, void *, const void *, const void *, size_t, Node *), &node, graph, NULL, NULL, 0, &third);
    freed(graph, node, third.of.allocation.address);
    HOOK(0, 0, cuGraphInstantiateWithParams_ptsz, (void **, void *, void *), &ready, graph, &how);
    HOOK(POOL, 1, cuGraphLaunch_ptsz, (void *, void *), ready, stream);
    trim_graphs();
}

// Asks for one more of everything that takes memory, but for what is in pools.
static void ask_for_more(size_t managed) {
    struct { size_t width, height; unsigned format, channels; } flat = {1024, 2048, 0x20, 1};
    struct { unsigned width, height, format, channels; } old_flat = {1024, 2048, 0x20, 1};
    struct { unsigned width, height, depth, format, channels, flags; } old_deep = {1024, 1024, 2, 0x20, 1, 0};
    struct { int kind, handles, place, device; void *metadata; unsigned char flags[8]; } on_device = {1, 0, 1, 0, NULL, {0}};
    Array3D deep = {1024, 1024, 2, 0x20, 1, 0};
    unsigned old, old_pitch;
    size_t pitch;
    void *made;
    HOOK(0, 0, cuMemAlloc_v2, (u64 *, size_t), &pointer, BLOCK);
    HOOK(0, 0, cuMemAllocPitch_v2, (u64 *, size_t *, size_t, size_t, unsigned), &pointer, &pitch, 4096, 2048, 4);
    HOOK(0, 0, cuMemAllocManaged, (u64 *, size_t, unsigned), &pointer, managed, 1);
    HOOK(0, 0, cuMemAlloc, (unsigned *, unsigned), &old, BLOCK);
    HOOK(0, 0, cuMemAllocPitch, (unsigned *, unsigned *, unsigned, unsigned, unsigned), &old, &old_pitch, 4096, 2048, 4);
    HOOK(0, 0, cuMemCreate, (u64 *, size_t, const void *, u64), &pointer, BLOCK, &on_device, 0);
    HOOK(0, 0, cuArrayCreate_v2, (void **, const void *), &made, &flat);
    HOOK(0, 0, cuArray3DCreate_v2, (void **, const void *), &made, &deep);
    HOOK(0, 0, cuArrayCreate, (void **, const void *), &made, &old_flat);
    HOOK(0, 0, cuArray3DCreate, (void **, const void *), &made, &old_deep);
    HOOK(0, 0, cuMipmappedArrayCreate, (void **, const void *, unsigned), &made, &deep, 1);
    HOOK(0, 0, cuCtxSetLimit, (int, size_t), 2, 2 * BLOCK);
    HOOK(0, 0, cuDevicePrimaryCtxRetain, (void **, int), &made, 0);
    HOOK(0, 0, cuGreenCtxCreate, (void **, void *, int, unsigned), &made, &flat, 0, 1);
    HOOK(0, 0, cuCtxCreate, (void **, unsigned, int), &made, 0, 0);
    HOOK(0, 0, cuCtxCreate_v2, (void **, unsigned, int), &made, 0, 0);
    HOOK(0, 0, cuCtxCreate_v3, (void **, void *, int, unsigned, int), &made, NULL, 0, 0, 0);
    HOOK(0, 0, cuCtxCreate_v4, (void **, void *, unsigned, int), &made, NULL, 0, 0);
    HOOK(0, 0, cuGLCtxCreate, (void **, unsigned, int), &made, 0, 0);
    HOOK(0, 0, cuGLCtxCreate_v2, (void **, unsigned, int), &made, 0, 0);
    HOOK(0, 0, cuVDPAUCtxCreate, (void **, unsigned, int, unsigned, void *), &made, 0, 0, 1, NULL);
    HOOK(0, 0, cuVDPAUCtxCreate_v2, (void **, unsigned, int, unsigned, void *), &made, 0, 0, 1, NULL);
}

// Leaves no room in the container's memory.
static void full(void) {
    Pool of_device = {1, 0, 1, 0, NULL, 0, 0, {0}};
    size_t left, all;
    void *made;
    HOOK(CONTEXT, 0, cuCtxCreate_v2, (void **, unsigned, int), &made, 0, 0);
    HOOK(0, 0, cuMemPoolCreate, (void **, const Pool *), &made, &of_device);
    while (!CALL(cuMemAlloc_v2, (u64 *, size_t), &pointer, 2 * MIB));
    HOOK(60, 0, cuMemGetInfo_v2, (size_t *, size_t *), &left, &all);
    HOOK(0, 0, cuMemAllocAsync, (u64 *, size_t, void *), &pointer, BLOCK, NULL);
    HOOK(0, 0, cuMemAllocAsync_ptsz, (u64 *, size_t, void *), &pointer, BLOCK, NULL);
    HOOK(0, 0, cuMemAllocFromPoolAsync, (u64 *, size_t, void *, void *), &pointer, BLOCK, made, NULL);
    HOOK(0, 0, cuMemAllocFromPoolAsync_ptsz, (u64 *, size_t, void *, void *), &pointer, BLOCK, made, NULL);
    ask_for_more(BLOCK);
}

// Leaves no room in the limiter's ledger: the kernel gives it no more memory, and what the driver needs lies ready in the heap.
static void starved(void) {
    static char *ready[128];
    size_t left, all;
    long pages = 0;
    void *made;
    HOOK(CONTEXT, 0, cuCtxCreate_v2, (void **, unsigned, int), &made, 0, 0);
    for (int at = 0; at < 128; at++) ready[at] = malloc(100000);
    for (int at = 0; at < 127; at++) free(ready[at]);
    FILE *sizes = fopen("/proc/self/statm", "r");
    if (!sizes || fscanf(sizes, "%ld", &pages) != 1) exit(2);
    fclose(sizes);
    // A few pages for managed memory are less than the ledger would grow by.
    struct rlimit most = {(pages + 8) * 4096, (pages + 8) * 4096};
    if (setrlimit(RLIMIT_AS, &most)) exit(2);
    while (!CALL(cuMemAlloc_v2, (u64 *, size_t), &pointer, 1000));
    HOOK(2, 0, cuMemGetInfo_v2, (size_t *, size_t *), &left, &all);
    ask_for_more(4096);
}

int main(int number, char **how) {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return 2;
    MUST(cuInit, (unsigned), 0);
    if (number > 1 && !strcmp(how[1], "full")) { full(); return 0; }
    if (number > 1 && !strcmp(how[1], "starved")) { starved(); return 0; }
    contexts();
    open_primary();
    tells();
    nvml();
    plain();
    arrays();
    physical();
    sparse();
    multicast();
    pools();
    load();
    launches();
    captures();
    command_lists();
    graphs();
    return 0;
}
