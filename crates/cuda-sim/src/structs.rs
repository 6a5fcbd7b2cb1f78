//! Structures of CUDA's header, as far as they are looked into, with their sizes checked. Pointers that nobody follows
//! are numbers.

use crate::abi::Pointers;
use crate::handle::Handle;
use std::ffi::{c_int, c_uint, c_void};

/// `CUlaunchConfig`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct LaunchConfig {
    pub(crate) blocks: [c_uint; 3],
    pub(crate) threads: [c_uint; 3],
    shared_memory: c_uint,
    pub(crate) stream: Handle,
    attributes: usize,
    attribute_count: c_uint,
}

/// `CUDA_LAUNCH_PARAMS_v1`: a kernel on one of several devices.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct LaunchOnDevice {
    pub(crate) function: Handle,
    pub(crate) blocks: [c_uint; 3],
    pub(crate) threads: [c_uint; 3],
    shared_memory: c_uint,
    pub(crate) stream: Handle,
    pub(crate) arguments: Pointers,
}

/// `CUctxCreateParams`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ContextParameters {
    affinity: usize,
    affinity_count: c_int,
    /// What it shares with a graphics library, if anything.
    pub(crate) graphics: usize,
}

/// `CUstreamCigCaptureParams`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct CommandListCapture {
    /// The command list of a graphics library.
    pub(crate) list: usize,
}

/// `CUDA_KERNEL_NODE_PARAMS_v1`, with which version 2 begins.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct KernelNode {
    pub(crate) function: Handle,
    pub(crate) blocks: [c_uint; 3],
    pub(crate) threads: [c_uint; 3],
    shared_memory: c_uint,
    pub(crate) arguments: Pointers,
    pub(crate) extra: Pointers,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct KernelNode2 {
    pub(crate) first: KernelNode,
    /// Stands for the function where that is NULL.
    pub(crate) kernel: Handle,
    context: Handle,
}

/// `CUmemLocation`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Location {
    pub(crate) kind: c_int,
    pub(crate) number: c_int,
}

impl Location {
    /// What `kind` is for a device.
    pub(crate) const DEVICE: c_int = 1;
}

/// `CUmemPoolProps`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PoolProperties {
    allocation_type: c_int,
    handle_types: c_int,
    pub(crate) location: Location,
    security: usize,
    pub(crate) most: usize,
    usage: u16,
    reserved: [u8; 54],
}

/// `CUmemAllocationProp`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct AllocationProperties {
    pub(crate) kind: c_int,
    pub(crate) handle_types: c_int,
    pub(crate) location: Location,
    metadata: usize,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Access {
    pub(crate) location: Location,
    pub(crate) flags: c_int,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS_v1`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct AllocationNode {
    pub(crate) pool: PoolProperties,
    access: usize,
    access_count: usize,
    pub(crate) bytes: usize,
    pub(crate) address: u64,
}

impl AllocationNode {
    /// Memory of a device at an address.
    pub(crate) fn of(device: c_int, address: u64, bytes: usize) -> Self {
        let location = Location { kind: Location::DEVICE, number: device };
        let pool = PoolProperties {
            allocation_type: 1,
            handle_types: 0,
            location,
            security: 0,
            most: 0,
            usage: 0,
            reserved: [0; 54],
        };
        AllocationNode { pool, access: 0, access_count: 0, bytes, address }
    }
}

/// `CUgraphNodeParams`: what kind of node, and what the kind needs.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct AnyNode {
    pub(crate) kind: c_uint,
    reserved: [c_int; 3],
    pub(crate) of_kind: OfKind,
    reserved_too: i64,
}

/// The kinds of node that can be made in this way.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union OfKind {
    room: [i64; 29],
    kernel: KernelNode2,
    allocation: AllocationNode,
    address: u64,
}

impl AnyNode {
    /// What a kernel needs. The caller has looked at the kind.
    pub(crate) fn kernel(&self) -> KernelNode2 {
        // SAFETY: all that C can write there is a valid value of this type, whose fields are numbers.
        unsafe { self.of_kind.kernel }
    }

    /// What an allocation needs, and where its address goes. The caller has looked at the kind.
    pub(crate) fn allocation(&mut self) -> &mut AllocationNode {
        // SAFETY: as above.
        unsafe { &mut self.of_kind.allocation }
    }

    /// The address that a freeing node is about. The caller has looked at the kind.
    pub(crate) fn address(&self) -> u64 {
        // SAFETY: as above.
        unsafe { self.of_kind.address }
    }
}

/// `CUgraphExecUpdateResultInfo`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct UpdateResult {
    pub(crate) result: c_uint,
    pub(crate) node: Handle,
    pub(crate) node_before: Handle,
}

/// `CUDA_ARRAY_DESCRIPTOR_v2`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ArrayDescriptor {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) format: c_uint,
    pub(crate) channels: c_uint,
}

/// `CUDA_ARRAY_DESCRIPTOR_v1`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct OldArrayDescriptor {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) format: c_uint,
    pub(crate) channels: c_uint,
}

/// `CUDA_ARRAY3D_DESCRIPTOR_v1`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct OldArray3DDescriptor {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) depth: u32,
    pub(crate) format: c_uint,
    pub(crate) channels: c_uint,
    flags: c_uint,
}

/// `CUmulticastObjectProp`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct MulticastProperties {
    pub(crate) devices: c_uint,
    pub(crate) size: usize,
    handle_types: u64,
    flags: u64,
}

/// `CUarrayMapInfo`, as far as it is looked at.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ArrayMapInfo {
    resource: c_uint,
    pub(crate) array: Handle,
    pub(crate) subresource: c_uint,
    pub(crate) region: [u64; 4],
    pub(crate) operation: c_uint,
    handle_type: c_uint,
    pub(crate) handle: u64,
    offset: u64,
    devices: c_uint,
    flags: c_uint,
    reserved: [c_uint; 2],
}

/// `CUDA_ARRAY3D_DESCRIPTOR_v2`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Array3DDescriptor {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    pub(crate) format: c_uint,
    pub(crate) channels: c_uint,
    pub(crate) flags: c_uint,
}

impl Array3DDescriptor {
    /// An array of these dimensions.
    pub(crate) fn new([width, height, depth]: [usize; 3], format: c_uint, channels: c_uint) -> Self {
        Array3DDescriptor { width, height, depth, format, channels, flags: 0 }
    }
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct InstantiateParams {
    pub(crate) flags: u64,
    upload_stream: Handle,
    pub(crate) error_node: Handle,
    pub(crate) result: c_uint,
}

/// `CUDA_HOST_NODE_PARAMS_v1`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct HostNode {
    pub(crate) function: Option<extern "C" fn(*mut c_void)>,
    pub(crate) data: *mut c_void,
}

/// `CUDA_MEMSET_NODE_PARAMS_v1`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct FillNode {
    pub(crate) to: u64,
    pub(crate) pitch: usize,
    pub(crate) value: c_uint,
    pub(crate) element_size: c_uint,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// `CUipcMemHandle`, which goes by value.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct IpcHandle(pub(crate) [u8; 64]);

// What a C compiler says about NVIDIA's header.
const _: () = {
    assert!(size_of::<LaunchConfig>() == 56);
    assert!(size_of::<LaunchOnDevice>() == 56);
    assert!(size_of::<ContextParameters>() == 24);
    assert!(size_of::<CommandListCapture>() == 8);
    assert!(size_of::<KernelNode>() == 56);
    assert!(size_of::<KernelNode2>() == 72);
    assert!(size_of::<PoolProperties>() == 88);
    assert!(size_of::<AllocationProperties>() == 32);
    assert!(size_of::<Access>() == 12);
    assert!(size_of::<AllocationNode>() == 120);
    assert!(size_of::<AnyNode>() == 256);
    assert!(size_of::<UpdateResult>() == 24);
    assert!(size_of::<ArrayDescriptor>() == 24);
    assert!(size_of::<Array3DDescriptor>() == 40);
    assert!(size_of::<InstantiateParams>() == 32);
    assert!(size_of::<HostNode>() == 16);
    assert!(size_of::<FillNode>() == 40);
    assert!(size_of::<IpcHandle>() == 64);
};
