// A tenant that always has work of a known length, and says when each piece of it ended.
//
//   tenant MODE ROUNDS SECONDS      prints one line of JSON
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

int main(int argc, char **argv) {
    std::string mode = argc > 1 ? argv[1] : "";
    long long rounds = argc > 2 ? atoll(argv[2]) : 100000;
    double seconds = argc > 3 ? atof(argv[3]) : 1;
    cudaDeviceProp device;
    MUST(cudaGetDeviceProperties(&device, 0));
    int blocks = device.multiProcessorCount;
    const int alone = 160 << 10;
    MUST(cudaFuncSetAttribute(work, cudaFuncAttributeMaxDynamicSharedMemorySize, alone));
    const unsigned room = 1 << 20;
    uint64_t *ends;
    unsigned *count;
    MUST(cudaMalloc(&ends, room * sizeof(uint64_t)));
    MUST(cudaMalloc(&count, sizeof(unsigned)));
    MUST(cudaMemset(count, 0, sizeof(unsigned)));
    cudaStream_t streams[2];
    for (auto &stream : streams) MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    auto launch = [&](int stream, int pieces) {
        work<<<blocks, 128, alone, streams[stream]>>>(rounds * pieces, ends, count, room, pieces);
    };
    if (mode == "calibrate") {
        cudaEvent_t from, to;
        MUST(cudaEventCreate(&from));
        MUST(cudaEventCreate(&to));
        std::vector<float> times;
        for (int i = 0; i < 60; i++) launch(0, 1);
        for (int i = 0; i < 41; i++) {
            MUST(cudaEventRecord(from, streams[0]));
            launch(0, 1);
            MUST(cudaEventRecord(to, streams[0]));
            MUST(cudaEventSynchronize(to));
            float one;
            MUST(cudaEventElapsedTime(&one, from, to));
            times.push_back(one);
        }
        std::sort(times.begin(), times.end());
        // A long row of them, so that what lies between two kernels shows as well.
        int row = std::max(8, (int)(200 / times[20]));
        MUST(cudaEventRecord(from, streams[0]));
        for (int i = 0; i < row; i++) launch(0, 1);
        MUST(cudaEventRecord(to, streams[0]));
        MUST(cudaEventSynchronize(to));
        float all;
        MUST(cudaEventElapsedTime(&all, from, to));
        printf("{\"median_ms\": %.6f, \"least_ms\": %.6f, \"in_a_row_ms\": %.6f}\n", times[20], times[0], all / row);
        return 0;
    }
    if (mode == "launch") {
        for (int i = 0; i < 2000; i++) nothing<<<1, 32, 0, streams[0]>>>();
        MUST(cudaDeviceSynchronize());
        double begin = now();
        long done = 0;
        while (now() - begin < seconds) {
            for (int i = 0; i < 200; i++) nothing<<<1, 32, 0, streams[0]>>>();
            done += 200;
            if (done % 2000 == 0) MUST(cudaStreamSynchronize(streams[0]));
        }
        MUST(cudaDeviceSynchronize());
        printf("{\"launches_per_s\": %.1f}\n", done / (now() - begin));
        return 0;
    }
    if (mode == "malloc" || mode == "malloc-async") {
        bool async = mode == "malloc-async";
        auto pair = [&]() {
            void *pointer;
            if (async) {
                MUST(cudaMallocAsync(&pointer, 1 << 20, streams[0]));
                MUST(cudaFreeAsync(pointer, streams[0]));
            } else {
                MUST(cudaMalloc(&pointer, 1 << 20));
                MUST(cudaFree(pointer));
            }
        };
        for (int i = 0; i < 200; i++) pair();
        double begin = now();
        long done = 0;
        while (now() - begin < seconds) {
            for (int i = 0; i < 50; i++) pair();
            done += 50;
        }
        MUST(cudaDeviceSynchronize());
        printf("{\"pairs_per_s\": %.1f}\n", done / (now() - begin));
        return 0;
    }
    if (mode == "fill") {
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
        printf("{\"free\": %zu, \"total\": %zu, \"got\": %zu}\n", free_bytes, total, got);
        fflush(stdout);
        if (argc > 4) getchar();
        return 0;
    }
    cudaGraphExec_t graph = nullptr;
    if (mode == "graph") {
        cudaGraph_t captured;
        MUST(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
        for (int i = 0; i < 20; i++) launch(0, 1);
        MUST(cudaStreamEndCapture(streams[0], &captured));
        MUST(cudaGraphInstantiate(&graph, captured, 0));
    }
    // A moment to get going, which does not count.
    unsigned dice = 12345;
    auto step = [&]() {
        if (mode == "graph") {
            MUST(cudaGraphLaunch(graph, streams[0]));
        } else if (mode == "mixed") {
            dice = dice * 1664525u + 1013904223u;
            unsigned face = (dice >> 16) % 10;
            launch((dice >> 28) & 1, face < 6 ? 1 : face < 9 ? 4 : 20);
        } else {
            launch(0, 1);
        }
    };
    // No more than this many steps ahead, as a program that waits for its results now and then.
    const int ahead = 64;
    std::vector<cudaEvent_t> marks(ahead);
    for (auto &mark : marks) MUST(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming));
    double begin = now(), total = seconds + 0.5;
    for (long i = 0; now() - begin < total; i++) {
        if (i >= ahead) MUST(cudaEventSynchronize(marks[i % ahead]));
        step();
        MUST(cudaEventRecord(marks[i % ahead], streams[0]));
    }
    MUST(cudaDeviceSynchronize());
    unsigned finished;
    MUST(cudaMemcpy(&finished, count, sizeof finished, cudaMemcpyDeviceToHost));
    finished = std::min(finished, room);
    std::vector<uint64_t> all(finished);
    MUST(cudaMemcpy(all.data(), ends, finished * sizeof(uint64_t), cudaMemcpyDeviceToHost));
    // Ends in nanoseconds of the GPU's clock, and how many lengths the piece took.
    printf("{\"seconds\": %.6f, \"ends\": [", now() - begin);
    for (unsigned i = 0; i < finished; i++) printf("%s[%llu,%llu]", i ? "," : "", (unsigned long long)(all[i] / 64), (unsigned long long)(all[i] % 64));
    printf("]}\n");
    return 0;
}
