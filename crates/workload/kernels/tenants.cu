// What tenants of the study run on a GPU. `tenants.ptx` and `burn.ptx` are made of this by `build.py`.

// Numbers that differ everywhere, from a place and a seed.
__device__ inline unsigned mixed(unsigned value) {
    value ^= value >> 16;
    value *= 0x7feb352du;
    value ^= value >> 15;
    value *= 0x846ca68bu;
    return value ^ (value >> 16);
}

__device__ inline float low_half(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_half(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }

extern "C" __global__ void empty() {}

// Pairs of bfloat16 between -1/16 and 1/16, everywhere.
extern "C" __global__ void fill_halves(unsigned *to, unsigned long long count, unsigned seed) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        unsigned random = mixed((unsigned)i ^ seed);
        float first = ((int)(random & 0xffffu) - 32768) / 524288.0f;
        float second = ((int)(random >> 16) - 32768) / 524288.0f;
        to[i] = (__float_as_uint(second) & 0xffff0000u) | (__float_as_uint(first) >> 16);
    }
}

// Numbers between 0 and 1, everywhere.
extern "C" __global__ void fill_random(float *to, unsigned count, unsigned seed) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = (mixed(i ^ seed) >> 8) * (1.0f / 16777216.0f);
}

// A row of outputs for each warp and S samples: outputs are the weights' rows times the inputs, and not less than 0.
template <unsigned S>
__device__ inline void rows(const uint4 *weights, const float *inputs, float *outputs, unsigned in, unsigned out) {
    unsigned row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32, first = blockIdx.y * S;
    if (row >= out) return;
    float sums[S];
#pragma unroll
    for (unsigned s = 0; s < S; s++) sums[s] = 0.0f;
    const uint4 *weight = weights + (unsigned long long)row * (in / 8);
    for (unsigned i = lane; i < in / 8; i += 32) {
        uint4 eight = weight[i];
#pragma unroll
        for (unsigned s = 0; s < S; s++) {
            const float4 *input = (const float4 *)(inputs + (unsigned long long)(first + s) * in) + i * 2;
            float4 left = input[0], right = input[1];
            sums[s] += low_half(eight.x) * left.x + high_half(eight.x) * left.y + low_half(eight.y) * left.z +
                       high_half(eight.y) * left.w + low_half(eight.z) * right.x + high_half(eight.z) * right.y +
                       low_half(eight.w) * right.z + high_half(eight.w) * right.w;
        }
    }
#pragma unroll
    for (unsigned s = 0; s < S; s++) {
        float sum = sums[s];
#pragma unroll
        for (unsigned far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
        if (lane == 0) outputs[(unsigned long long)(first + s) * out + row] = fmaxf(sum, 0.0f);
    }
}

extern "C" __global__ void layer_one(const uint4 *weights, const float *inputs, float *outputs, unsigned in, unsigned out) {
    rows<1>(weights, inputs, outputs, in, out);
}

extern "C" __global__ void layer_many(const uint4 *weights, const float *inputs, float *outputs, unsigned in, unsigned out) {
    rows<8>(weights, inputs, outputs, in, out);
}

// Brings the numbers of each sample to the same size; a block for each sample.
extern "C" __global__ void normalise(float *values, unsigned width) {
    __shared__ float parts[8];
    float *sample = values + (unsigned long long)blockIdx.x * width;
    float sum = 0.0f;
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) sum += sample[i] * sample[i];
#pragma unroll
    for (unsigned far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    float all = 0.0f;
    for (unsigned i = 0; i < 8; i++) all += parts[i];
    float scale = rsqrtf(all / width + 1e-6f);
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) sample[i] = sample[i] * scale + 0.001f;
}

// The product of two square matrices, in tiles of 16 by 16; 256 threads.
extern "C" __global__ void product(const float *left, const float *right, float *result, unsigned side) {
    __shared__ float a[16][16], b[16][16];
    unsigned x = threadIdx.x % 16, y = threadIdx.x / 16;
    unsigned column = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
    float sum = 0.0f;
    for (unsigned tile = 0; tile < side; tile += 16) {
        a[y][x] = left[row * side + tile + x];
        b[y][x] = right[(tile + y) * side + column];
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < 16; k++) sum += a[y][k] * b[k][x];
        __syncthreads();
    }
    result[row * side + column] = sum;
}

// Copies 16 bytes at a time.
extern "C" __global__ void copy(uint4 *to, const uint4 *from, unsigned long long count) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) to[i] = from[i];
}

// Arithmetic that keeps every multiprocessor busy: 16 multiplications and additions a round.
extern "C" __global__ void burn_scalar(const unsigned *memory, unsigned long long words, float *out, unsigned rounds, unsigned seed) {
    unsigned at = mixed(blockIdx.x * blockDim.x + threadIdx.x ^ seed);
    float factor = low_half(memory[((unsigned long long)at * 2654435761ull) % words]);
    float sums[16];
#pragma unroll
    for (unsigned j = 0; j < 16; j++) sums[j] = j;
    for (unsigned round = 0; round < rounds; round++) {
#pragma unroll
        for (unsigned j = 0; j < 16; j++) sums[j] = fmaf(sums[j], factor, 0.25f);
    }
    float all = 0.0f;
#pragma unroll
    for (unsigned j = 0; j < 16; j++) all += sums[j];
    if (all == -1.0f) out[0] = all;
}

// Writes where nothing is.
extern "C" __global__ void fault(unsigned *where) { where[threadIdx.x] = 1; }

#if __CUDA_ARCH__ >= 800
// Products of matrices in the tensor cores, eight a round for each warp, of numbers from all over the memory.
extern "C" __global__ void burn(const uint4 *memory, unsigned long long words, float *out, unsigned rounds, unsigned seed) {
    unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    unsigned long long blocks = words / 32;
    unsigned long long at = mixed(warp ^ seed);
    float sums[8][4];
#pragma unroll
    for (unsigned j = 0; j < 8; j++) sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0.0f;
    uint4 a = memory[(at % blocks) * 32 + lane], b[4];
    for (unsigned round = 0; round < rounds; round++) {
        if (round % 32 == 0) {
            at = at * 6364136223846793005ull + 1442695040888963407ull;
            unsigned long long from = at >> 20;
            a = memory[(from % blocks) * 32 + lane];
#pragma unroll
            for (unsigned j = 0; j < 4; j++) b[j] = memory[((from + 1 + j) % blocks) * 32 + lane];
        }
#pragma unroll
        for (unsigned j = 0; j < 8; j++) {
            unsigned first = j % 2 ? b[j / 2].z : b[j / 2].x, second = j % 2 ? b[j / 2].w : b[j / 2].y;
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(sums[j][0]), "+f"(sums[j][1]), "+f"(sums[j][2]), "+f"(sums[j][3])
                         : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(first), "r"(second));
        }
    }
    float all = 0.0f;
#pragma unroll
    for (unsigned j = 0; j < 8; j++) all += sums[j][0] + sums[j][1] + sums[j][2] + sums[j][3];
    if (all == -1.0f) out[0] = all;
}
#endif
