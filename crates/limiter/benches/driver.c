// A driver that does nothing, so that only what stands before it takes time: a `libcuda.so.1` with one device and one pool.
#include <stdint.h>
#include <string.h>

static int pool;
static uint64_t next = 1ull << 40;

int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { memset(uuid, 0x11, 16); return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *flags = 0; *active = 1; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &pool; return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuCtxGetCurrent(void **context) { *context = &pool; return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuDeviceGetMemPool(void **found, int device) { *found = &pool; return 0; }
int cuDeviceGetDefaultMemPool(void **found, int device) { *found = &pool; return 0; }
// It has reserved a gibibyte, and nothing of it is in use.
int cuMemPoolGetAttribute(void *of, int attribute, uint64_t *value) { *value = attribute == 5 ? 1ull << 30 : 0; return 0; }
int cuMemAllocAsync(uint64_t *pointer, size_t size, void *stream) { *pointer = next; return 0; }
int cuMemFreeAsync(uint64_t pointer, void *stream) { return 0; }
int cuMemAlloc_v2(uint64_t *pointer, size_t size) { next += 2 << 20; *pointer = next; return 0; }
int cuMemFree_v2(uint64_t pointer) { return 0; }
