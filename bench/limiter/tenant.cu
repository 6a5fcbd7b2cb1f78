// A tenant that always has work of a known length, and says when each piece of it ended.
//
// Reads commands `MODE ROUNDS SECONDS`, one a line, and answers each with a line of JSON.
//
// MODE: spin (one kernel after another), graph (twenty kernels in a graph), mixed (kernels of 1, 4 and 20 times the length in two streams),
// calibrate (how long one kernel takes), launch (empty kernels as fast as they go), malloc, malloc-async, fill (memory until there is no more).
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
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
    printf("{\"median_ms\": %.6f, \"in_a_row_ms\": %.6f}\n", times[20], all / row);
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

// Takes memory until there is no more, and gives it back.
static void fill() {
    size_t free_bytes, total, got = 0;
    MUST(cudaMemGetInfo(&free_bytes, &total));
    std::vector<void *> all;
    for (size_t step = 64 << 20; step >= 1 << 20; step /= 4) {
        void *pointer;
        while (cudaMalloc(&pointer, step) == cudaSuccess) {
            all.push_back(pointer);
            got += step;
        }
        cudaGetLastError();
    }
    for (void *pointer : all) MUST(cudaFree(pointer));
    size_t after, same;
    MUST(cudaMemGetInfo(&after, &same));
    printf("{\"free\": %zu, \"total\": %zu, \"got\": %zu, \"free_after\": %zu}\n", free_bytes, total, got, after);
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
        } else if (mode == "fill") {
            fill();
        } else {
            saturate(mode, rounds, seconds);
        }
        fflush(stdout);
    }
    return 0;
}
