// A CUDA program for the limiter's tests whose graphs allocate memory: it does steps that it is told, and prints a line for each.
//
//     graphs STEP...
//
// captured:PIECES:MIB  nodes:PIECES:MIB:DEVICE  child:PIECES:MIB  nested:NUMBER  kept:MIB  uploaded:PIECES:MIB     make a graph ready, the next number from 0 on
// launch:NUMBER:TIMES  upload:NUMBER  end:NUMBER  free-kept  trim  level  threads:MIB  plain:MIB  reset  pause
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
typedef struct { int type, handles, place, device; void *security; size_t most; unsigned short usage; unsigned char rest[54]; } Pool;
typedef struct { Pool pool; void *access; size_t accesses, bytes; u64 address; } Allocation;

#define MIB (1ul << 20)

static void *library, *context, *stream, *ready[64];
static int count;
static u64 kept;

static void say(const char *what, long one, long two) { printf("%s %ld %ld\n", what, one, two); fflush(stdout); }
static void must(const char *what, int code) { if (code) { say(what, code, -1); exit(3); } }
static void *find(const char *name) { void *found = dlsym(library, name); if (!found) must(name, 500); return found; }
#define CALL(name, parameters, ...) (((int (*) parameters)find(#name))(__VA_ARGS__))
#define MUST(name, parameters, ...) must(#name, CALL(name, parameters, __VA_ARGS__))

static void open_primary(void) {
    MUST(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
    MUST(cuCtxSetCurrent, (void *), context);
    MUST(cuStreamCreate, (void **, unsigned), &stream, 1);
}

static int make_ready(void *graph, u64 flags) {
    int code = CALL(cuGraphInstantiateWithFlags, (void **, void *, u64), &ready[count], graph, flags);
    if (!code) count++;
    return code;
}

static void begin(void *where) { MUST(cuStreamBeginCapture_v2, (void *, int), where, 2); }

static void *end(void *where) {
    void *graph;
    MUST(cuStreamEndCapture, (void *, void **), where, &graph);
    return graph;
}

// Pieces that are all there at once, and freed at the end.
static void *captured(void *where, long pieces, size_t bytes) {
    u64 addresses[64];
    begin(where);
    for (long at = 0; at < pieces; at++) MUST(cuMemAllocAsync, (u64 *, size_t, void *), &addresses[at], bytes, where);
    for (long at = 0; at < pieces; at++) MUST(cuMemFreeAsync, (u64, void *), addresses[at], where);
    return end(where);
}

static void *nodes(long pieces, size_t bytes, int device) {
    Allocation wanted[64];
    void *graph, *before = NULL, *node;
    MUST(cuGraphCreate, (void **, unsigned), &graph, 0);
    for (long at = 0; at < pieces; at++, before = node) {
        wanted[at] = (Allocation){{1, 0, 1, device, NULL, 0, 0, {0}}, NULL, 0, bytes, 0};
        MUST(cuGraphAddMemAllocNode, (void **, void *, const void *, size_t, Allocation *), &node, graph, &before, at > 0, &wanted[at]);
    }
    for (long at = 0; at < pieces; at++, before = node)
        MUST(cuGraphAddMemFreeNode, (void **, void *, const void *, size_t, u64), &node, graph, &before, 1, wanted[at].address);
    return graph;
}

static int launch(long number) { return CALL(cuGraphLaunch, (void *, void *), ready[number], stream); }

// Every thread launches a graph of its own, again and again, and now and then trims.
static pthread_barrier_t all_there;
static long went, refused;

static void *thread(void *graph) {
    void *own;
    MUST(cuCtxSetCurrent, (void *), context);
    MUST(cuStreamCreate, (void **, unsigned), &own, 1);
    pthread_barrier_wait(&all_there);
    for (int turn = 0; turn < 300; turn++) {
        int code = CALL(cuGraphLaunch, (void *, void *), graph, own);
        if (code && code != 2) must("launch in a thread", code);
        __atomic_add_fetch(code ? &refused : &went, 1, __ATOMIC_SEQ_CST);
        if (turn % 50 == 49) MUST(cuDeviceGraphMemTrim, (int), 0);
    }
    return NULL;
}

static void threads(size_t bytes) {
    pthread_t all[8];
    int first = count;
    for (int at = 0; at < 8; at++) must("ready", make_ready(captured(stream, 1, bytes), 0));
    pthread_barrier_init(&all_there, NULL, 8);
    for (int at = 0; at < 8; at++) pthread_create(&all[at], NULL, thread, ready[first + at]);
    for (int at = 0; at < 8; at++) pthread_join(all[at], NULL);
    say("threads", went, refused);
}

static void step(char *text) {
    long one = 0, two = 0, three = 0, times = 0;
    int code = 0;
    char *rest = strchr(text, ':'), line[16];
    void *graph, *child, *node;
    u64 pointer, now, most;
    if (rest) { *rest++ = 0; sscanf(rest, "%ld:%ld:%ld", &one, &two, &three); }
    if (!strcmp(text, "captured")) say(text, make_ready(captured(stream, one, two * MIB), 0), 0);
    else if (!strcmp(text, "nodes")) say(text, make_ready(nodes(one, two * MIB, three), 0), 0);
    else if (!strcmp(text, "uploaded")) say(text, make_ready(nodes(one, two * MIB, 0), 2), 0);
    else if (!strcmp(text, "child")) { // A graph in a graph in a graph.
        child = nodes(one, two * MIB, 0);
        for (int depth = 0; depth < 2; depth++, child = graph) {
            MUST(cuGraphCreate, (void **, unsigned), &graph, 0);
            MUST(cuGraphAddChildGraphNode, (void **, void *, const void *, size_t, void *), &node, graph, NULL, 0, child);
        }
        say(text, make_ready(child, 0), 0);
    }
    else if (!strcmp(text, "nested")) { // One that was launched in a capture.
        begin(stream);
        must("launch in a capture", launch(one));
        say(text, make_ready(end(stream), 0), 0);
    }
    else if (!strcmp(text, "kept")) { // One that does not free what it allocates.
        begin(stream);
        MUST(cuMemAllocAsync, (u64 *, size_t, void *), &kept, one * MIB, stream);
        say(text, make_ready(end(stream), 0), 0);
    }
    else if (!strcmp(text, "free-kept")) { MUST(cuMemFreeAsync, (u64, void *), kept, stream); say(text, 0, 0); }
    else if (!strcmp(text, "launch")) {
        for (; times < (two ? two : 1) && !(code = launch(one)); times++) MUST(cuStreamSynchronize, (void *), stream);
        say(text, times, code);
    }
    else if (!strcmp(text, "upload")) say(text, CALL(cuGraphUpload, (void *, void *), ready[one], stream), 0);
    else if (!strcmp(text, "end")) say(text, CALL(cuGraphExecDestroy, (void *), ready[one]), 0);
    else if (!strcmp(text, "trim")) { MUST(cuDeviceGraphMemTrim, (int), 0); say(text, 0, 0); }
    else if (!strcmp(text, "level")) { // What graphs have, and the most that they ever had.
        MUST(cuDeviceGetGraphMemAttribute, (int, int, u64 *), 0, 2, &now);
        MUST(cuDeviceGetGraphMemAttribute, (int, int, u64 *), 0, 3, &most);
        say(text, now / MIB, most / MIB);
    }
    else if (!strcmp(text, "threads")) threads(one * MIB);
    else if (!strcmp(text, "plain")) say(text, CALL(cuMemAlloc_v2, (u64 *, size_t), &pointer, one * MIB), 0);
    else if (!strcmp(text, "reset")) { MUST(cuDevicePrimaryCtxReset_v2, (int), 0); open_primary(); say(text, 0, 0); }
    else if (!strcmp(text, "pause")) { say("pause", 0, 0); if (!fgets(line, 16, stdin)) exit(0); }
    else must(text, 404);
}

int main(int number, char **words) {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return 2;
    MUST(cuInit, (unsigned), 0);
    open_primary();
    for (int at = 1; at < number; at++) {
        char text[64];
        snprintf(text, sizeof text, "%s", words[at]);
        step(text);
    }
    return 0;
}
