// A tenant that always has work of a known length, and says when each piece of it ended.
//
// Reads commands `MODE ROUNDS SECONDS`, one a line, and answers each with a line of JSON.
//
// MODE: spin (one kernel after another), graph (twenty kernels in a graph), mixed (kernels of 1, 4 and 20 times the length in two streams),
// calibrate (how long one kernel takes), launch (empty kernels as fast as they go), malloc, malloc-async. Of memory, with ROUNDS as the way in
// which it is allocated: hold (until there is no more), free (what is held), race (takes and frees for so long), and traces (so many of them,
// at random in all ways, each to its end).
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
#include <vector>
#include <cuda.h>
#include <cuda_runtime.h>

#define MUST(call)                                                                         \
    do {                                                                                   \
        cudaError_t error = (call);                                                        \
        if (error != cudaSuccess) {                                                        \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                 \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

__device__ inline uint64_t timer() {
    uint64_t value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
    return value;
}

// Does so many rounds of arithmetic on every multiprocessor, and notes when it ended. Its shared memory keeps a second one from running
// beside it, and time in which another process has the GPU does not count as work.
__global__ void work(long long rounds, uint64_t *ends, unsigned *count, unsigned room, unsigned pieces) {
    float value = threadIdx.x;
#pragma unroll 1
    for (long long i = 0; i < rounds; i++) value = fmaf(value, 1.0000001f, 0.5f);
    if (value == -1.0f) ends[0] = 0;
    __syncthreads();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        unsigned at = atomicAdd(count, 1u);
        if (at < room) ends[at] = timer() * 64 + pieces;
    }
}

__global__ void nothing() {}

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static int blocks;
static const int alone = 160 << 10;
static const unsigned room = 1 << 20;
static uint64_t *ends;
static unsigned *count;
static cudaStream_t streams[2];

static void launch(long long rounds, int stream, unsigned pieces) {
    work<<<blocks, 128, alone, streams[stream]>>>(rounds * pieces, ends, count, room, pieces);
}

// How long one kernel takes: by itself, and in a long row, where what lies between two kernels shows as well.
static void calibrate(long long rounds) {
    cudaEvent_t from, to;
    MUST(cudaEventCreate(&from));
    MUST(cudaEventCreate(&to));
    std::vector<float> times;
    for (int i = 0; i < 60; i++) launch(rounds, 0, 1);
    for (int i = 0; i < 41; i++) {
        MUST(cudaEventRecord(from, streams[0]));
        launch(rounds, 0, 1);
        MUST(cudaEventRecord(to, streams[0]));
        MUST(cudaEventSynchronize(to));
        float one;
        MUST(cudaEventElapsedTime(&one, from, to));
        times.push_back(one);
    }
    std::sort(times.begin(), times.end());
    int row = std::max(8, (int)(200 / times[20]));
    MUST(cudaEventRecord(from, streams[0]));
    for (int i = 0; i < row; i++) launch(rounds, 0, 1);
    MUST(cudaEventRecord(to, streams[0]));
    MUST(cudaEventSynchronize(to));
    float all;
    MUST(cudaEventElapsedTime(&all, from, to));
    printf("{\"median_ms\": %.6f, \"in_a_row_ms\": %.6f, \"multiprocessors\": %d}\n", times[20], all / row, blocks);
}

// How often something can be done in a second.
template <typename Do> static void rate(double seconds, int batch, Do once) {
    for (int i = 0; i < batch; i++) once();
    MUST(cudaDeviceSynchronize());
    double begin = now();
    long done = 0;
    while (now() - begin < seconds) {
        for (int i = 0; i < batch; i++) once();
        done += batch;
        MUST(cudaStreamSynchronize(streams[0]));
    }
    printf("{\"per_s\": %.2f}\n", done / (now() - begin));
}

// Memory that was taken in one of the ways.
struct Piece {
    int way;
    size_t size;
    void *pointer;
    CUmemGenericAllocationHandle handle;
    cudaArray_t array;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
};

enum Way { PLAIN, ASYNC, PHYSICAL, MANAGED, PITCHED, ARRAY, GRAPH, WAYS };

// A graph that allocates and does not free: its memory is there until it is freed outside.
static cudaError_t take_by_graph(size_t size, Piece *piece) {
    cudaMemAllocNodeParams wanted = {};
    wanted.poolProps.allocType = cudaMemAllocationTypePinned;
    wanted.poolProps.location.type = cudaMemLocationTypeDevice;
    wanted.poolProps.location.id = 0;
    wanted.bytesize = size;
    cudaGraphNode_t node;
    MUST(cudaGraphCreate(&piece->graph, 0));
    MUST(cudaGraphAddMemAllocNode(&node, piece->graph, nullptr, 0, &wanted));
    MUST(cudaGraphInstantiate(&piece->ready, piece->graph, 0));
    piece->pointer = wanted.dptr;
    return cudaGraphLaunch(piece->ready, streams[0]);
}

static void end_graph(const Piece &piece) {
    MUST(cudaGraphExecDestroy(piece.ready));
    MUST(cudaGraphDestroy(piece.graph));
}

static bool take(int way, size_t size, Piece *piece) {
    *piece = Piece{way, size, nullptr, 0, nullptr, nullptr, nullptr};
    cudaError_t error = cudaSuccess;
    if (way == PLAIN) {
        error = cudaMalloc(&piece->pointer, size);
    } else if (way == ASYNC) {
        error = cudaMallocAsync(&piece->pointer, size, streams[0]);
    } else if (way == PHYSICAL) {
        CUmemAllocationProp wanted = {};
        wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        wanted.location.id = 0;
        size_t whole = (size + (2 << 20) - 1) / (2 << 20) * (2 << 20);
        return cuMemCreate(&piece->handle, whole, &wanted, 0) == CUDA_SUCCESS;
    } else if (way == MANAGED) {
        error = cudaMallocManaged(&piece->pointer, size);
    } else if (way == PITCHED) {
        size_t pitch;
        error = cudaMallocPitch(&piece->pointer, &pitch, 4096, std::max<size_t>(1, size / 4096));
    } else if (way == GRAPH) {
        error = take_by_graph(size, piece);
        if (error != cudaSuccess) end_graph(*piece);
    } else {
        cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
        size_t side = 1024;
        error = cudaMallocArray(&piece->array, &format, side, std::max<size_t>(1, size / (side * 4)));
    }
    if (error != cudaSuccess) cudaGetLastError();
    return error == cudaSuccess;
}

static void give(const Piece &piece) {
    if (piece.way == PHYSICAL) {
        if (cuMemRelease(piece.handle) != CUDA_SUCCESS) exit(1);
    } else if (piece.way == ASYNC) {
        MUST(cudaFreeAsync(piece.pointer, streams[0]));
    } else if (piece.way == GRAPH) {
        MUST(cudaFreeAsync(piece.pointer, streams[0]));
        MUST(cudaStreamSynchronize(streams[0]));
        end_graph(piece);
    } else if (piece.way == ARRAY) {
        MUST(cudaFreeArray(piece.array));
    } else {
        MUST(cudaFree(piece.pointer));
    }
}

// Everything is back, also what pools and graphs would keep for later.
static void settle() {
    MUST(cudaDeviceSynchronize());
    cudaMemPool_t pool;
    MUST(cudaDeviceGetDefaultMemPool(&pool, 0));
    MUST(cudaMemPoolTrimTo(pool, 0));
    MUST(cudaDeviceGraphMemTrim(0));
}

static std::vector<Piece> held;

// Takes memory until there is no more.
static void hold(int way) {
    size_t free_bytes, total, got = 0;
    MUST(cudaMemGetInfo(&free_bytes, &total));
    for (size_t step = 64 << 20; step >= 1 << 20; step /= 4) {
        Piece piece;
        while (take(way, step, &piece)) {
            held.push_back(piece);
            got += step;
        }
    }
    printf("{\"free\": %zu, \"total\": %zu, \"got\": %zu}\n", free_bytes, total, got);
}

static void free_all() {
    for (const Piece &piece : held) give(piece);
    held.clear();
    settle();
    size_t free_bytes, total;
    MUST(cudaMemGetInfo(&free_bytes, &total));
    printf("{\"free\": %zu}\n", free_bytes);
}

static unsigned dice;

static unsigned roll(unsigned sides) {
    dice = dice * 1664525u + 1013904223u;
    return (dice >> 8) % sides;
}

// Takes and frees as fast as it can, so much at a time that several processes do not have enough together.
static void race(int way, double seconds) {
    double begin = now();
    long taken = 0, refused = 0;
    while (now() - begin < seconds) {
        Piece piece;
        size_t size = (size_t)(1 + roll(96)) << 20;
        if (roll(3) && take(way, size, &piece)) {
            held.push_back(piece);
            taken++;
        } else if (!held.empty()) {
            refused++;
            size_t at = roll(held.size());
            give(held[at]);
            held[at] = held.back();
            held.pop_back();
        }
    }
    for (const Piece &piece : held) give(piece);
    held.clear();
    settle();
    printf("{\"taken\": %ld, \"refused_or_freed\": %ld}\n", taken, refused);
}

// Traces of memory that is taken and freed at random, in all ways and sizes, each to its end.
static void traces(long number) {
    long steps = 0;
    for (long trace = 0; trace < number; trace++) {
        dice = (unsigned)trace * 2654435761u + 1;
        std::vector<Piece> mine;
        for (unsigned length = 4 + roll(12); length > 0; length--, steps++) {
            Piece piece;
            size_t size = (size_t)(1 + roll(4096)) << roll(12);
            if (roll(3) && take(roll(WAYS), size, &piece)) {
                mine.push_back(piece);
            } else if (!mine.empty()) {
                size_t at = roll(mine.size());
                give(mine[at]);
                mine[at] = mine.back();
                mine.pop_back();
            }
        }
        for (const Piece &piece : mine) give(piece);
    }
    settle();
    size_t free_bytes, total;
    MUST(cudaMemGetInfo(&free_bytes, &total));
    printf("{\"traces\": %ld, \"steps\": %ld, \"free\": %zu}\n", number, steps, free_bytes);
}

// Work without end; tells when each piece ended, in nanoseconds of the GPU's clock, and how many lengths it took.
static void saturate(const std::string &mode, long long rounds, double seconds) {
    MUST(cudaMemset(count, 0, sizeof(unsigned)));
    MUST(cudaDeviceSynchronize());
    cudaGraphExec_t graph = nullptr;
    if (mode == "graph") {
        cudaGraph_t captured;
        MUST(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
        for (int i = 0; i < 20; i++) launch(rounds, 0, 1);
        MUST(cudaStreamEndCapture(streams[0], &captured));
        MUST(cudaGraphInstantiate(&graph, captured, 0));
    }
    unsigned dice = 12345;
    // No more than this many steps ahead, as a program that waits for its results now and then.
    const int ahead = 64;
    static std::vector<cudaEvent_t> marks;
    while (marks.size() < ahead) {
        marks.emplace_back();
        MUST(cudaEventCreateWithFlags(&marks.back(), cudaEventDisableTiming));
    }
    double begin = now();
    for (long i = 0; now() - begin < seconds; i++) {
        if (i >= ahead) MUST(cudaEventSynchronize(marks[i % ahead]));
        int stream = 0;
        if (mode == "graph") {
            MUST(cudaGraphLaunch(graph, streams[0]));
        } else if (mode == "mixed") {
            dice = dice * 1664525u + 1013904223u;
            unsigned face = (dice >> 16) % 10;
            stream = (dice >> 28) & 1;
            launch(rounds, stream, face < 6 ? 1 : face < 9 ? 4 : 20);
        } else {
            launch(rounds, 0, 1);
        }
        MUST(cudaEventRecord(marks[i % ahead], streams[stream]));
    }
    MUST(cudaDeviceSynchronize());
    if (graph) MUST(cudaGraphExecDestroy(graph));
    unsigned finished;
    MUST(cudaMemcpy(&finished, count, sizeof finished, cudaMemcpyDeviceToHost));
    finished = std::min(finished, room);
    std::vector<uint64_t> all(finished);
    MUST(cudaMemcpy(all.data(), ends, finished * sizeof(uint64_t), cudaMemcpyDeviceToHost));
    printf("{\"ends\": [");
    for (unsigned i = 0; i < finished; i++)
        printf("%s[%llu,%llu]", i ? "," : "", (unsigned long long)(all[i] / 64), (unsigned long long)(all[i] % 64));
    printf("]}\n");
}

int main() {
    cudaDeviceProp device;
    MUST(cudaGetDeviceProperties(&device, 0));
    blocks = device.multiProcessorCount;
    MUST(cudaFuncSetAttribute(work, cudaFuncAttributeMaxDynamicSharedMemorySize, alone));
    MUST(cudaMalloc(&ends, room * sizeof(uint64_t)));
    MUST(cudaMalloc(&count, sizeof(unsigned)));
    for (auto &stream : streams) MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    char word[32];
    long long rounds;
    double seconds;
    while (scanf("%31s %lld %lf", word, &rounds, &seconds) == 3) {
        std::string mode = word;
        if (mode == "calibrate") {
            calibrate(rounds);
        } else if (mode == "launch") {
            rate(seconds, 1000, [] { nothing<<<1, 32, 0, streams[0]>>>(); });
        } else if (mode == "kernel") {
            rate(seconds, 20, [rounds] { launch(rounds, 0, 1); });
        } else if (mode == "malloc") {
            rate(seconds, 100, [] {
                void *pointer;
                MUST(cudaMalloc(&pointer, 1 << 20));
                MUST(cudaFree(pointer));
            });
        } else if (mode == "malloc-async") {
            rate(seconds, 500, [] {
                void *pointer;
                MUST(cudaMallocAsync(&pointer, 1 << 20, streams[0]));
                MUST(cudaFreeAsync(pointer, streams[0]));
            });
        } else if (mode == "hold") {
            hold((int)rounds);
        } else if (mode == "free") {
            free_all();
        } else if (mode == "race") {
            dice = (unsigned)getpid();
            race((int)rounds, seconds);
        } else if (mode == "traces") {
            traces((long)rounds);
        } else {
            saturate(mode, rounds, seconds);
        }
        fflush(stdout);
    }
    return 0;
}
