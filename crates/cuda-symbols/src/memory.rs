//! Functions that take device memory, give it back, keep it taken or tell how much there is.

/// Names of [`Does::Allocates`](crate::Does::Allocates). A node of a graph is charged when it is added: the
/// address is fixed from then on, and no graph that has one can be cloned.
pub(crate) const ALLOCATES: &[&str] = &[
    "cuArray3DCreate",
    "cuArray3DCreate_v2",
    "cuArrayCreate",
    "cuArrayCreate_v2",
    "cuGraphAddMemAllocNode",
    "cuMemAlloc",
    "cuMemAllocAsync",
    "cuMemAllocAsync_ptsz",
    "cuMemAllocFromPoolAsync",
    "cuMemAllocFromPoolAsync_ptsz",
    "cuMemAllocManaged",
    "cuMemAllocPitch",
    "cuMemAllocPitch_v2",
    "cuMemAlloc_v2",
    "cuMemCreate",
    "cuMipmappedArrayCreate",
];

/// Names of [`Does::Frees`](crate::Does::Frees). Destroying a graph gives back what it took for itself and
/// what it never allocated; an allocation that a launch has left alive is freed like any other.
pub(crate) const FREES: &[&str] = &[
    "cuArrayDestroy",
    "cuDestroyExternalMemory",
    "cuEGLStreamConsumerReleaseFrame",
    "cuGLUnregisterBufferObject",
    "cuGraphAddMemFreeNode",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphicsUnregisterResource",
    "cuIpcCloseMemHandle",
    "cuMemFree",
    "cuMemFreeAsync",
    "cuMemFreeAsync_ptsz",
    "cuMemFree_v2",
    "cuMemRelease",
    "cuMipmappedArrayDestroy",
];

/// Names of [`Does::Holds`](crate::Does::Holds). `cuMemRelease` ends an allocation only when no mapping, no
/// reference and no shared handle is left; these make and drop them.
pub(crate) const HOLDS: &[&str] = &[
    "cuEGLStreamProducerPresentFrame",
    "cuEGLStreamProducerReturnFrame",
    "cuExternalMemoryGetMappedBuffer",
    "cuExternalMemoryGetMappedMipmappedArray",
    "cuGLMapBufferObject",
    "cuGLMapBufferObjectAsync",
    "cuGLMapBufferObjectAsync_v2",
    "cuGLMapBufferObjectAsync_v2_ptsz",
    "cuGLMapBufferObject_v2",
    "cuGLMapBufferObject_v2_ptds",
    "cuGLUnmapBufferObject",
    "cuGLUnmapBufferObjectAsync",
    "cuGraphicsMapResources",
    "cuGraphicsMapResources_ptsz",
    "cuGraphicsUnmapResources",
    "cuGraphicsUnmapResources_ptsz",
    "cuIpcGetMemHandle",
    "cuLogicalEndpointBindAddr",
    "cuLogicalEndpointBindMem",
    "cuLogicalEndpointDestroy",
    "cuLogicalEndpointExport",
    "cuLogicalEndpointUnbind",
    "cuMemExportToShareableHandle",
    "cuMemGetHandleForAddressRange",
    "cuMemMap",
    "cuMemMapArrayAsync",
    "cuMemMapArrayAsync_ptsz",
    "cuMemPoolExportPointer",
    "cuMemPoolExportToShareableHandle",
    "cuMemRetainAllocationHandle",
    "cuMemUnmap",
    "cuMulticastBindAddr",
    "cuMulticastBindAddr_v2",
    "cuMulticastBindMem",
    "cuMulticastBindMem_v2",
    "cuMulticastUnbind",
];

/// Names of [`Does::Imports`](crate::Does::Imports). Registering a resource of a graphics library is its
/// import; mapping it afterwards is a hold.
pub(crate) const IMPORTS: &[&str] = &[
    "cuEGLStreamConsumerAcquireFrame",
    "cuGLRegisterBufferObject",
    "cuGraphicsEGLRegisterImage",
    "cuGraphicsGLRegisterBuffer",
    "cuGraphicsGLRegisterImage",
    "cuGraphicsVDPAURegisterOutputSurface",
    "cuGraphicsVDPAURegisterVideoSurface",
    "cuImportExternalMemory",
    "cuIpcOpenMemHandle",
    "cuIpcOpenMemHandle_v2",
    "cuLogicalEndpointImport",
    "cuMemImportFromShareableHandle",
    "cuMemPoolImportFromShareableHandle",
    "cuMemPoolImportPointer",
];

/// Names of [`Does::Grows`](crate::Does::Grows). Stacks, heap and printf buffer of a context; executable
/// graphs with what their allocation nodes need; multicast objects and logical endpoints, whose cost is not documented.
pub(crate) const GROWS: &[&str] = &[
    "cuCtxSetLimit",
    "cuGraphInstantiate",
    "cuGraphInstantiateWithFlags",
    "cuGraphInstantiateWithParams",
    "cuGraphInstantiateWithParams_ptsz",
    "cuGraphInstantiate_v2",
    "cuGraphUpload",
    "cuGraphUpload_ptsz",
    "cuLogicalEndpointAddDevice",
    "cuLogicalEndpointCreate",
    "cuMulticastAddDevice",
    "cuMulticastCreate",
];

/// Names of [`Does::Pools`](crate::Does::Pools). An imported pool is in IMPORTS: nothing can be allocated
/// from it.
pub(crate) const POOLS: &[&str] = &[
    "cuDeviceGraphMemTrim",
    "cuDeviceSetMemPool",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemSetMemPool",
];

/// Names of [`Does::Moves`](crate::Does::Moves). Memory that the operating system allocated can be moved onto
/// a device without any allocation that CUDA sees.
pub(crate) const MOVES: &[&str] = &[
    "cuMemAdvise",
    "cuMemAdvise_v2",
    "cuMemDiscardAndPrefetchBatchAsync",
    "cuMemDiscardAndPrefetchBatchAsync_ptsz",
    "cuMemDiscardBatchAsync",
    "cuMemDiscardBatchAsync_ptsz",
    "cuMemPrefetchAsync",
    "cuMemPrefetchAsync_ptsz",
    "cuMemPrefetchAsync_v2",
    "cuMemPrefetchAsync_v2_ptsz",
    "cuMemPrefetchBatchAsync",
    "cuMemPrefetchBatchAsync_ptsz",
];

/// Names of [`Does::PinsHost`](crate::Does::PinsHost).
pub(crate) const PINS_HOST: &[&str] = &[
    "cuMemAllocHost",
    "cuMemAllocHost_v2",
    "cuMemFreeHost",
    "cuMemHostAlloc",
    "cuMemHostRegister",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
];

/// Names of [`Does::TellsMemory`](crate::Does::TellsMemory).
pub(crate) const TELLS_MEMORY: &[&str] =
    &["cuDeviceTotalMem", "cuDeviceTotalMem_v2", "cuMemGetInfo", "cuMemGetInfo_v2"];
