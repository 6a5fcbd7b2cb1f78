// A CUDA program for the limiter's tests: it finds the driver in a way that it is told, does steps that it is told, and prints a line for each.
//
//     program WAY STEP...      WAY: linked, dlsym, v1, v2, v2-legacy, v2-thread      STEP: NAME[:NUMBER[:NUMBER]]
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t u64;
typedef struct { size_t width, height; unsigned format, channels; } Array;
typedef struct { size_t width, height, depth; unsigned format, channels, flags; } Array3D;
typedef struct { int kind, handles, place, device; void *metadata; unsigned char flags[8]; } Physical;
typedef struct { int type, handles, place, device; void *security; size_t most; unsigned short usage; unsigned char rest[54]; } Pool;

// Symbol, name for cuGetProcAddress, parameters.
#define FUNCTIONS(X) \
    X(cuInit, "cuInit", (unsigned)) \
    X(cuDeviceGet, "cuDeviceGet", (int *, int)) \
    X(cuDeviceGetUuid_v2, "cuDeviceGetUuid", (unsigned char *, int)) \
    X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", (size_t *, int)) \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (void **, int)) \
    X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", (int)) \
    X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", (int)) \
    X(cuCtxSetCurrent, "cuCtxSetCurrent", (void *)) \
    X(cuCtxCreate_v2, "cuCtxCreate", (void **, unsigned, int)) \
    X(cuCtxDestroy_v2, "cuCtxDestroy", (void *)) \
    X(cuCtxSetLimit, "cuCtxSetLimit", (int, size_t)) \
    X(cuMemGetInfo_v2, "cuMemGetInfo", (size_t *, size_t *)) \
    X(cuMemAlloc_v2, "cuMemAlloc", (u64 *, size_t)) \
    X(cuMemAllocPitch_v2, "cuMemAllocPitch", (u64 *, size_t *, size_t, size_t, unsigned)) \
    X(cuMemAllocManaged, "cuMemAllocManaged", (u64 *, size_t, unsigned)) \
    X(cuMemFree_v2, "cuMemFree", (u64)) \
    X(cuMemAllocAsync, "cuMemAllocAsync", (u64 *, size_t, void *)) \
    X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", (u64 *, size_t, void *, void *)) \
    X(cuMemFreeAsync, "cuMemFreeAsync", (u64, void *)) \
    X(cuDeviceGetMemPool, "cuDeviceGetMemPool", (void **, int)) \
    X(cuMemPoolCreate, "cuMemPoolCreate", (void **, const Pool *)) \
    X(cuMemPoolDestroy, "cuMemPoolDestroy", (void *)) \
    X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", (void *, int, u64 *)) \
    X(cuMemPoolTrimTo, "cuMemPoolTrimTo", (void *, size_t)) \
    X(cuMemCreate, "cuMemCreate", (u64 *, size_t, const Physical *, u64)) \
    X(cuMemRelease, "cuMemRelease", (u64)) \
    X(cuMemAddressReserve, "cuMemAddressReserve", (u64 *, size_t, size_t, u64, u64)) \
    X(cuMemMap, "cuMemMap", (u64, size_t, size_t, u64, u64)) \
    X(cuMemUnmap, "cuMemUnmap", (u64, size_t)) \
    X(cuArrayCreate_v2, "cuArrayCreate", (void **, const Array *)) \
    X(cuArray3DCreate_v2, "cuArray3DCreate", (void **, const Array3D *)) \
    X(cuArrayDestroy, "cuArrayDestroy", (void *)) \
    X(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", (void **, const Array3D *, unsigned)) \
    X(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", (void *)) \
    X(cuModuleLoadData, "cuModuleLoadData", (void **, const void *)) \
    X(cuModuleGetFunction, "cuModuleGetFunction", (void **, void *, const char *)) \
    X(cuStreamCreate, "cuStreamCreate", (void **, unsigned)) \
    X(cuStreamSynchronize, "cuStreamSynchronize", (void *)) \
    X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", (void *, int)) \
    X(cuStreamEndCapture, "cuStreamEndCapture", (void *, void **)) \
    X(cuLaunchKernel, "cuLaunchKernel", (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **)) \
    X(cuGraphGetNodes, "cuGraphGetNodes", (void *, void **, size_t *)) \
    X(cuGraphNodeGetType, "cuGraphNodeGetType", (void *, int *)) \
    X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", (void **, void *, u64)) \
    X(cuGraphLaunch, "cuGraphLaunch", (void *, void *)) \
    X(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", (int))

#ifdef LINKED
#define DECLARE(symbol, name, parameters) extern int symbol parameters;
FUNCTIONS(DECLARE)
#endif
#define POINTER(symbol, name, parameters) static int(*p_##symbol) parameters;
FUNCTIONS(POINTER)

static void *library;
static void *context, *stream, *own_pool, *spin, *graph;
static char **command_line;

static void say(const char *what, long one, long two) { printf("%s %ld %ld\n", what, one, two); fflush(stdout); }
static void must(const char *what, int code) { if (code) { say(what, code, -1); exit(3); } }

static void find_linked(void) {
#ifdef LINKED
#define TAKE(symbol, name, parameters) p_##symbol = symbol;
    FUNCTIONS(TAKE)
#else
    must("this program is not linked to the driver", 1);
#endif
}

static void find(const char *way) {
    if (!strcmp(way, "linked")) { find_linked(); return; }
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) { fprintf(stderr, "%s\n", dlerror()); exit(3); }
    int (*first)(const char *, void **, int, u64) = dlsym(library, "cuGetProcAddress");
    int (*second)(const char *, void **, int, u64, int *) = dlsym(library, "cuGetProcAddress_v2");
    int status;
#define FIND(symbol, name, parameters) \
    if (!strcmp(way, "dlsym")) p_##symbol = dlsym(library, #symbol); \
    else if (!strcmp(way, "v1")) must(name, first(name, (void **)&p_##symbol, 12000, 0)); \
    else must(name, second(name, (void **)&p_##symbol, 12000, !strcmp(way, "v2-legacy") ? 1 : !strcmp(way, "v2-thread") ? 2 : 0, &status)); \
    if (!p_##symbol) must(name, 500);
    FUNCTIONS(FIND)
}

static u64 now(void) { struct timespec time; clock_gettime(CLOCK_MONOTONIC, &time); return time.tv_sec * 1000000000ull + time.tv_nsec; }

// Makes the device's context; answers what the driver said.
static int open_device(void) {
    int code = p_cuInit(0);
    if (!code) code = p_cuDevicePrimaryCtxRetain(&context, 0);
    if (!code) code = p_cuCtxSetCurrent(context);
    return code;
}

static void load(void) {
    void *module;
    if (spin) return;
    must("module", p_cuModuleLoadData(&module, ".version 6.0\n.visible .entry spin(.param .u64 ns) { ret; }"));
    must("function", p_cuModuleGetFunction(&spin, module, "spin"));
    if (!stream) must("stream", p_cuStreamCreate(&stream, 1));
}

static int launch(u64 nanoseconds) {
    void *arguments[] = {&nanoseconds};
    return p_cuLaunchKernel(spin, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
}

// Memory of every kind, by the kind's number.
enum { PLAIN, PITCH, MANAGED, ASYNC, FROM_POOL, CREATED, ARRAY, ARRAY3D, MIPMAP, KINDS };
static const char *kinds[] = {"plain", "pitch", "managed", "async", "from-pool", "created", "array", "array3d", "mipmap"};
static struct { int kind; u64 value; } held[65536];
static int count;

static int take(int kind, size_t bytes, u64 *value) {
    size_t pitch, rows = bytes / 4096 ? bytes / 4096 : 1;
    Physical on_device = {1, 0, 1, 0, NULL, {0}};
    Pool of_device = {1, 0, 1, 0, NULL, 0, 0, {0}};
    Array array = {1024, rows, 0x20, 1};
    Array3D deep = {1024, rows, 0, 0x20, 1, 0};
    switch (kind) {
    case PLAIN: return p_cuMemAlloc_v2(value, bytes);
    case PITCH: return p_cuMemAllocPitch_v2(value, &pitch, 4096, rows, 4);
    case MANAGED: return p_cuMemAllocManaged(value, bytes, 1);
    case ASYNC: return p_cuMemAllocAsync(value, bytes, stream);
    case FROM_POOL:
        if (!own_pool) must("pool", p_cuMemPoolCreate(&own_pool, &of_device));
        return p_cuMemAllocFromPoolAsync(value, bytes, own_pool, stream);
    case CREATED: return p_cuMemCreate(value, (bytes + (2 << 20) - 1) / (2 << 20) * (2 << 20), &on_device, 0);
    case ARRAY: return p_cuArrayCreate_v2((void **)value, &array);
    case ARRAY3D: return p_cuArray3DCreate_v2((void **)value, &deep);
    default: return p_cuMipmappedArrayCreate((void **)value, &deep, 1);
    }
}

static int give(int kind, u64 value) {
    switch (kind) {
    case ASYNC: case FROM_POOL: return p_cuMemFreeAsync(value, stream);
    case CREATED: return p_cuMemRelease(value);
    case ARRAY: case ARRAY3D: return p_cuArrayDestroy((void *)value);
    case MIPMAP: return p_cuMipmappedArrayDestroy((void *)value);
    default: return p_cuMemFree_v2(value);
    }
}

static int hold(int kind, size_t bytes) {
    u64 value = 0;
    int code = take(kind, bytes, &value);
    if (!code) { held[count].kind = kind; held[count++].value = value; }
    return code;
}

static void drop(int place) {
    must("free", give(held[place].kind, held[place].value));
    held[place] = held[--count];
}

static void drop_all(void) {
    void *pool;
    while (count) drop(count - 1);
    must("synchronize", p_cuStreamSynchronize(stream));
    must("pool of the device", p_cuDeviceGetMemPool(&pool, 0));
    must("trim", p_cuMemPoolTrimTo(pool, 0));
    if (own_pool) must("trim", p_cuMemPoolTrimTo(own_pool, 0));
}

static void random_steps(long steps, unsigned seed) {
    long denied = 0;
    for (long step = 0; step < steps; step++) {
        if (count && rand_r(&seed) % 2) { drop(rand_r(&seed) % count); continue; }
        // Most are small, some are large.
        size_t bytes = rand_r(&seed) % 4 ? 1 + rand_r(&seed) % 70000 : 1 + rand_r(&seed) % (6 << 20);
        int code = hold(rand_r(&seed) % KINDS, bytes);
        if (code == 2) denied++; else must("random", code);
    }
    say("random", count, denied);
    drop_all();
}

// Takes and frees as fast as it can. A number in a file that all racers share is raised after memory was taken and lowered before it is
// freed, so it is never more than what they have. Says how often it got some, and the most that all had.
static void race(long milliseconds, unsigned seed) {
    long got = 0, most = 0;
    int file = open(getenv("RACE"), O_RDWR);
    long *all = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (all == MAP_FAILED) must("RACE", 1);
    for (u64 end = now() + milliseconds * 1000000ull; now() < end;) {
        int code = hold(PLAIN, 2 << 20);
        if (!code) {
            long have = __atomic_add_fetch(all, 2 << 20, __ATOMIC_SEQ_CST);
            if (have > most) most = have;
            got++;
        } else if (code != 2) must("race", code);
        if (count && (code || rand_r(&seed) % 2)) {
            __atomic_sub_fetch(all, 2 << 20, __ATOMIC_SEQ_CST);
            drop(rand_r(&seed) % count);
        }
        if (code) usleep(rand_r(&seed) % 300);
    }
    say("race", got, most);
}

static void churn(void) {
    unsigned seed = getpid();
    for (;;) {
        if (count < 200) hold(rand_r(&seed) % 2 ? PLAIN : CREATED, 1 + rand_r(&seed) % (3 << 20));
        if (count && rand_r(&seed) % 2) drop(rand_r(&seed) % count);
    }
}

// Keeps the device busy with pieces of work; says how many there were and how many microseconds they took together with all waiting.
static void saturate(long milliseconds, u64 nanoseconds, int graphs) {
    long pieces = 0;
    u64 begin = now();
    while (now() < begin + milliseconds * 1000000ull) {
        for (int one = 0; one < 4; one++, pieces++) must("launch", graphs ? p_cuGraphLaunch(graph, stream) : launch(nanoseconds));
        must("synchronize", p_cuStreamSynchronize(stream));
    }
    say("saturate", pieces, (now() - begin) / 1000);
}

// Starts work without ever waiting for it, until the time is over; says how many pieces there were and how long until they were done.
static void rush(long milliseconds, u64 nanoseconds) {
    long pieces = 0;
    u64 begin = now();
    for (; now() < begin + milliseconds * 1000000ull; pieces++) must("launch", launch(nanoseconds));
    must("synchronize", p_cuStreamSynchronize(stream));
    say("rush", pieces, (now() - begin) / 1000);
}

// Captures pieces of work; says how many nodes there are, and how many of them are no kernels.
static void capture(long pieces, u64 nanoseconds) {
    void *captured, *nodes[64];
    size_t number = 64, others = 0;
    must("begin", p_cuStreamBeginCapture_v2(stream, 0));
    for (long one = 0; one < pieces; one++) must("captured launch", launch(nanoseconds));
    must("end", p_cuStreamEndCapture(stream, &captured));
    must("nodes", p_cuGraphGetNodes(captured, nodes, &number));
    for (size_t one = 0; one < number; one++) { int type; must("type", p_cuGraphNodeGetType(nodes[one], &type)); others += type != 0; }
    must("instantiate", p_cuGraphInstantiateWithFlags(&graph, captured, 0));
    say("capture", number, others);
}

// For every name on stdin: which library's function each way in leads to, and what it is called there.
static void doors(void) {
    char name[128], base[128];
    int (*first)(const char *, void **, int, u64) = dlsym(library, "cuGetProcAddress");
    int (*second)(const char *, void **, int, u64, int *) = dlsym(library, "cuGetProcAddress_v2");
    while (scanf("%127s %127s", name, base) == 2) {
        for (int way = 0; way < 5; way++) {
            // So that every function is the one of its name in one of them.
            static const int versions[] = {13040, 13030, 13010, 13000, 12030, 12020, 12000, 11030, 11020, 10000, 7000, 4000, 3010, 2000};
            for (unsigned version = 0; version < (way ? sizeof versions / sizeof *versions : 1); version++) {
                void *address = NULL; Dl_info info; int status;
                if (way == 0) address = dlsym(library, name);
                else if (way == 1) first(base, &address, versions[version], 0);
                else second(base, &address, versions[version], way - 2, &status);
                if (!address || !dladdr(address, &info)) continue;
                const char *slash = strrchr(info.dli_fname, '/');
                printf("%d %d %s %s %s\n", way, versions[version], way ? base : name, slash ? slash + 1 : info.dli_fname, info.dli_sname ? info.dli_sname : "-");
            }
        }
    }
}

static void *thread(void *seed) {
    must("current", p_cuCtxSetCurrent(context));
    for (int turn = 0; turn < 500; turn++) {
        u64 value;
        int kind = turn % 3, code = take(kind, 1000 + turn * 4000 + (long)seed, &value);
        if (!code) must("free", give(kind, value)); else if (code != 2) must("thread", code);
    }
    return NULL;
}

// Takes from the device's pool and gives back, some pieces at a time, as fast as it can. At first all threads together want twice the limit.
static pthread_barrier_t full;

static void *pool_thread(void *seed) {
    unsigned random = 1 + (long)seed;
    u64 pieces[8] = {0};
    must("current", p_cuCtxSetCurrent(context));
    for (int turn = 0; turn < 3000; turn++) {
        u64 *piece = &pieces[turn < 8 ? turn : rand_r(&random) % 8];
        if (turn == 8) pthread_barrier_wait(&full);
        if (*piece) { must("free", p_cuMemFreeAsync(*piece, stream)); *piece = 0; continue; }
        int code = p_cuMemAllocAsync(piece, turn < 8 ? 2 << 20 : 1 + rand_r(&random) % (4 << 20), stream);
        if (code == 2) *piece = 0; else must("pool-threads", code);
    }
    for (int at = 0; at < 8; at++) if (pieces[at]) must("free", p_cuMemFreeAsync(pieces[at], stream));
    return NULL;
}

static void step(char *text) {
    long one = 0, two = 0, three = 0;
    char *rest = strchr(text, ':');
    size_t most, left;
    int code = 0, kind = 0;
    if (rest) { *rest++ = 0; sscanf(rest, "%ld:%ld:%ld", &one, &two, &three); }
    if (!strcmp(text, "open")) { say("open", open_device(), 0); if (context) load(); }
    else if (!strcmp(text, "try-open")) say("open", open_device(), 0);
    else if (!strcmp(text, "uuid")) {
        unsigned char uuid[16];
        must("init", p_cuInit(0)); must("uuid", p_cuDeviceGetUuid_v2(uuid, 0));
        for (int at = 0; at < 16; at++) printf("%s%02x", at == 4 || at == 6 || at == 8 || at == 10 ? "-" : "", uuid[at]);
        printf("\n");
    }
    else if (!strcmp(text, "fill")) { // fill:KIND:BYTES:MOST
        long before = count;
        kind = one;
        while (!code && (!three || count - before < three)) code = hold(kind, two);
        say(kinds[kind], count - before, code);
    }
    else if (!strcmp(text, "free")) { drop_all(); say("free", 0, 0); }
    else if (!strcmp(text, "info")) { must("info", p_cuMemGetInfo_v2(&left, &most)); say("info", left, most); }
    else if (!strcmp(text, "total")) { must("total", p_cuDeviceTotalMem_v2(&most, 0)); say("total", most, 0); }
    else if (!strcmp(text, "pause")) { char line[16]; say("pause", getpid(), 0); if (!fgets(line, 16, stdin)) exit(0); }
    else if (!strcmp(text, "random")) random_steps(one, two);
    else if (!strcmp(text, "race")) race(one, two + getpid());
    else if (!strcmp(text, "churn")) { say("churn", 0, 0); churn(); }
    else if (!strcmp(text, "saturate")) saturate(one, two, 0);
    else if (!strcmp(text, "rush")) rush(one, two);
    else if (!strcmp(text, "capture")) capture(one, two);
    else if (!strcmp(text, "graphs")) saturate(one, 0, 1);
    else if (!strcmp(text, "doors")) doors();
    else if (!strcmp(text, "threads")) {
        pthread_t threads[8];
        for (long at = 0; at < 8; at++) pthread_create(&threads[at], NULL, thread, (void *)at);
        for (int at = 0; at < 8; at++) pthread_join(threads[at], NULL);
        say("threads", 8, 0);
    }
    else if (!strcmp(text, "pool-threads")) { // Says how much the pool has, and the most that it ever had.
        pthread_t threads[8];
        void *pool;
        u64 now, most_ever;
        pthread_barrier_init(&full, NULL, 8);
        for (long at = 0; at < 8; at++) pthread_create(&threads[at], NULL, pool_thread, (void *)at);
        for (int at = 0; at < 8; at++) pthread_join(threads[at], NULL);
        must("pool of the device", p_cuDeviceGetMemPool(&pool, 0));
        must("reserved", p_cuMemPoolGetAttribute(pool, 5, &now));
        must("reserved", p_cuMemPoolGetAttribute(pool, 6, &most_ever));
        say("pool-threads", now, most_ever);
    }
    else if (!strcmp(text, "fork")) { // The child goes on with the next steps; the parent waits for it and then goes on too.
        pid_t child = fork();
        if (child) { int status; waitpid(child, &status, 0); say("child", status, 0); } else { count = 0; context = spin = stream = NULL; }
    }
    else if (!strcmp(text, "exec")) { execv("/proc/self/exe", command_line + one); must("exec", 1); }
    else if (!strcmp(text, "close")) { dlclose(library); say("close", 0, 0); }
    else if (!strcmp(text, "reset")) { must("reset", p_cuDevicePrimaryCtxReset_v2(0)); count = 0; context = spin = stream = own_pool = NULL; say("reset", 0, 0); }
    else if (!strcmp(text, "contexts")) { // Makes a context, fills it and ends it, as often as said; says how many blocks the last one had.
        void *made;
        for (long turn = 0; turn < one; turn++) {
            must("create", p_cuCtxCreate_v2(&made, 0, 0));
            for (count = 0, code = 0; !code;) code = hold(PLAIN, two);
            must("destroy", p_cuCtxDestroy_v2(made));
        }
        say("contexts", count, code);
        count = 0;
    }
    else if (!strcmp(text, "nvml")) { // What the operators' library tells about memory, in its two versions.
        struct { u64 total, free, used; } first;
        struct { unsigned version; u64 total, reserved, free, used; } second = {.version = sizeof second | 2 << 24};
        void *operators = dlopen("libnvidia-ml.so.1", RTLD_NOW), *device;
        if (!operators) must("libnvidia-ml.so.1", 1);
        int (*init)(void) = dlsym(operators, "nvmlInit_v2"), (*by_index)(unsigned, void **) = dlsym(operators, "nvmlDeviceGetHandleByIndex_v2");
        int (*info)(void *, void *) = dlsym(operators, "nvmlDeviceGetMemoryInfo"), (*info2)(void *, void *) = dlsym(operators, "nvmlDeviceGetMemoryInfo_v2");
        must("nvmlInit", init()); must("handle", by_index(0, &device));
        must("memory", info(device, &first)); must("memory", info2(device, &second));
        if (first.total != second.total || first.free != second.free || first.used != second.used) must("both versions", 1);
        say("nvml", first.free, first.total);
    }
    else if (!strcmp(text, "graph-memory")) { // Launches a graph that takes and frees so many pieces; says how often that went well of 5 times.
        void *captured;
        u64 pieces[64];
        must("begin", p_cuStreamBeginCapture_v2(stream, 0));
        for (long at = 0; at < one; at++) must("captured", p_cuMemAllocAsync(&pieces[at], two, stream));
        for (long at = 0; at < one; at++) must("captured", p_cuMemFreeAsync(pieces[at], stream));
        must("end", p_cuStreamEndCapture(stream, &captured));
        must("instantiate", p_cuGraphInstantiateWithFlags(&graph, captured, 0));
        for (kind = 0; kind < 5 && !(code = p_cuGraphLaunch(graph, stream)); kind++) must("synchronize", p_cuStreamSynchronize(stream));
        say("graph-memory", kind, code);
    }
    else if (!strcmp(text, "starve")) { // From now on the kernel gives no memory; what the driver needs lies ready in the heap.
        static char *ready[128];
        long pages = 0;
        for (int at = 0; at < 128; at++) ready[at] = malloc(100000);
        for (int at = 0; at < 127; at++) free(ready[at]);
        FILE *sizes = fopen("/proc/self/statm", "r");
        if (!sizes || fscanf(sizes, "%ld", &pages) != 1) must("statm", 1);
        fclose(sizes);
        struct rlimit all = {pages * 4096, pages * 4096};
        must("setrlimit", setrlimit(RLIMIT_AS, &all));
        say("starve", 0, 0);
    }
    else if (!strcmp(text, "heap")) { must("heap", p_cuCtxSetLimit(2, one)); say("heap", one, 0); }
    else if (!strcmp(text, "end-pool")) { must("end-pool", p_cuMemPoolDestroy(own_pool)); own_pool = NULL; count = 0; say("end-pool", 0, 0); }
    else if (!strcmp(text, "trim-graphs")) { must("trim", p_cuDeviceGraphMemTrim(0)); say("trim-graphs", 0, 0); }
    else if (!strcmp(text, "map-release")) { // Maps physical memory and lets go of its handle until that is refused; it stays while it is mapped.
        Physical on_device = {1, 0, 1, 0, NULL, {0}};
        u64 handle, address, taken = 0;
        must("reserve", p_cuMemAddressReserve(&address, 1ull << 30, 0, 0, 0));
        while (taken < 1ull << 30 && !(code = p_cuMemCreate(&handle, two, &on_device, 0))) {
            must("map", p_cuMemMap(address + taken, two, 0, handle, 0));
            must("release", p_cuMemRelease(handle));
            taken += two;
        }
        say("map-release", taken / two, code);
        must("unmap", p_cuMemUnmap(address, taken));
    }
    else must(text, 404);
}

int main(int number, char **words) {
    command_line = words;
    if (number < 2) return 2;
    find(words[1]);
    for (int at = 2; at < number; at++) {
        char text[64];
        snprintf(text, sizeof text, "%s", words[at]);
        step(text);
    }
    return 0;
}
