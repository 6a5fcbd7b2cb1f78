// A tenant that keeps all multiprocessors busy for a known part of the time, and holds a known amount of memory.
//
// Takes MEBIBYTES PERCENT ROUNDS, calibrates while it is alone with a percentage of -1, and else works until its input ends. Answers with a line of JSON:
// how long one kernel takes, or how many it ran.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <poll.h>
#include <thread>
#include <cuda_runtime.h>

#define MUST(call)                                                                         \
    do {                                                                                   \
        cudaError_t error = (call);                                                        \
        if (error != cudaSuccess) {                                                        \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                 \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

// Its shared memory keeps a second one from running beside it on the same multiprocessor.
__global__ void work(long long rounds, float *out) {
    extern __shared__ char room[];
    float value = threadIdx.x;
#pragma unroll 1
    for (long long i = 0; i < rounds; i++) value = fmaf(value, 1.0000001f, 0.5f);
    if (value == -1.0f) out[0] = value + room[0];
}

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int, char **words) {
    const long long mebibytes = atoll(words[1]), percent = atoll(words[2]), rounds = atoll(words[3]);
    int blocks = 0;
    MUST(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    MUST(cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, 0));
    const int alone = 160 << 10;
    MUST(cudaFuncSetAttribute(work, cudaFuncAttributeMaxDynamicSharedMemorySize, alone));
    float *held = nullptr;
    MUST(cudaMalloc(&held, (size_t)mebibytes << 20));
    auto run = [&] {
        work<<<blocks, 256, alone>>>(rounds, held);
        MUST(cudaGetLastError());
    };
    run();
    MUST(cudaDeviceSynchronize());
    if (percent < 0) {
        // By the GPU's own clock, many in a row, so that launching them does not count.
        cudaEvent_t begin, end;
        MUST(cudaEventCreate(&begin));
        MUST(cudaEventCreate(&end));
        MUST(cudaEventRecord(begin));
        for (int i = 0; i < 200; i++) run();
        MUST(cudaEventRecord(end));
        MUST(cudaEventSynchronize(end));
        float milliseconds = 0;
        MUST(cudaEventElapsedTime(&milliseconds, begin, end));
        printf("{\"milliseconds\": %f}\n", milliseconds / 200);
        return 0;
    }
    printf("ready\n");
    fflush(stdout);
    long long kernels = 0;
    const double length = atof(words[4]) / 1000;
    double due = now();
    pollfd input = {0, POLLIN, 0};
    while (poll(&input, 1, 0) == 0) {
        if (percent == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            continue;
        }
        run();
        MUST(cudaDeviceSynchronize());
        kernels++;
        due += length * 100 / percent;
        const double left = due - now();
        if (left > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left));
        else due = now();
    }
    printf("{\"kernels\": %lld}\n", kernels);
}
