//! Why functions of the driver that touch memory or work are not hooked: a test asks it of every one that is not.

use carve_cuda_symbols::{Does, SYMBOLS};
extern crate std;
use std::collections::{BTreeMap, BTreeSet};
use std::string::String;
use std::vec::Vec;

/// Names that are not hooked, and the reason that they share.
type Reason = (&'static [&'static str], &'static str);

const REASONS: &[Reason] = &[
    (
        &[
            "cuIpcCloseMemHandle",
            "cuIpcGetMemHandle",
            "cuIpcOpenMemHandle",
            "cuIpcOpenMemHandle_v2",
            "cuMemImportFromShareableHandle",
            "cuMemPoolExportPointer",
            "cuMemPoolExportToShareableHandle",
            "cuMemPoolImportFromShareableHandle",
            "cuMemPoolImportPointer",
        ],
        "memory of another process counts in the process that allocated it, which runs under a limiter of its own",
    ),
    (
        &["cuMemExportToShareableHandle", "cuMemGetHandleForAddressRange"],
        "an open file keeps memory past its release, and nobody is told when it is closed: that much is not counted",
    ),
    (
        &[
            "cuDestroyExternalMemory",
            "cuExternalMemoryGetMappedBuffer",
            "cuExternalMemoryGetMappedMipmappedArray",
            "cuImportExternalMemory",
        ],
        "external memory is a graphics library's, which the limiter does not see allocate: it is not counted",
    ),
    (
        &[
            "cuEGLStreamConsumerAcquireFrame",
            "cuEGLStreamConsumerReleaseFrame",
            "cuEGLStreamProducerPresentFrame",
            "cuEGLStreamProducerReturnFrame",
            "cuGLMapBufferObject",
            "cuGLMapBufferObjectAsync",
            "cuGLMapBufferObjectAsync_v2",
            "cuGLMapBufferObjectAsync_v2_ptsz",
            "cuGLMapBufferObject_v2",
            "cuGLMapBufferObject_v2_ptds",
            "cuGLRegisterBufferObject",
            "cuGLUnmapBufferObject",
            "cuGLUnmapBufferObjectAsync",
            "cuGLUnregisterBufferObject",
            "cuGraphicsEGLRegisterImage",
            "cuGraphicsGLRegisterBuffer",
            "cuGraphicsGLRegisterImage",
            "cuGraphicsMapResources",
            "cuGraphicsMapResources_ptsz",
            "cuGraphicsUnmapResources",
            "cuGraphicsUnmapResources_ptsz",
            "cuGraphicsUnregisterResource",
            "cuGraphicsVDPAURegisterOutputSurface",
            "cuGraphicsVDPAURegisterVideoSurface",
        ],
        "the memory is a graphics library's, which the limiter does not see allocate: it is not counted",
    ),
    (
        &[
            "cuLogicalEndpointAddDevice",
            "cuLogicalEndpointBindAddr",
            "cuLogicalEndpointBindMem",
            "cuLogicalEndpointCreate",
            "cuLogicalEndpointDestroy",
            "cuLogicalEndpointExport",
            "cuLogicalEndpointImport",
            "cuLogicalEndpointUnbind",
        ],
        "endpoints name memory that counts already; whether they keep it past its release is documented nowhere",
    ),
    (
        &["cuMulticastAddDevice"],
        "a multicast object is addresses and entries of the switch; the memory behind it is bound and counts by itself",
    ),
    (
        &["cuGraphAddMemFreeNode", "cuGraphDestroy"],
        "what graphs have is asked of the driver at every launch and trim, and comes back to its pool, not to the device",
    ),
    (&["cuMemPoolSetAttribute"], "what a pool has reserved counts, whatever makes it keep or release it"),
    (
        &["cuGetExportTable"],
        "its functions have no names; the runtime library needs them, and none is known to allocate or launch for programs",
    ),
    (&["cuThreadExchangeStreamCaptureMode"], "it sets what may break a capture, and begins or ends none"),
    (
        &[
            "cuGraphAddBatchMemOpNode",
            "cuGraphAddEmptyNode",
            "cuGraphAddEventRecordNode",
            "cuGraphAddEventWaitNode",
            "cuGraphAddExternalSemaphoresSignalNode",
            "cuGraphAddExternalSemaphoresWaitNode",
            "cuGraphAddHostNode",
            "cuGraphAddKernelNode",
            "cuGraphAddKernelNode_v2",
            "cuGraphAddMemcpyNode",
            "cuGraphAddMemsetNode",
        ],
        "such nodes allocate nothing, and the graph's launch is hooked",
    ),
    (
        &["cuGraphAddChildGraphNode", "cuGraphClone"],
        "nodes that allocate were noticed when they were added to the graph that is copied",
    ),
    (
        &[
            "cuGraphBatchMemOpNodeSetParams",
            "cuGraphDestroyNode",
            "cuGraphEventRecordNodeSetEvent",
            "cuGraphEventWaitNodeSetEvent",
            "cuGraphExecBatchMemOpNodeSetParams",
            "cuGraphExecChildGraphNodeSetParams",
            "cuGraphExecEventRecordNodeSetEvent",
            "cuGraphExecEventWaitNodeSetEvent",
            "cuGraphExecExternalSemaphoresSignalNodeSetParams",
            "cuGraphExecExternalSemaphoresWaitNodeSetParams",
            "cuGraphExecHostNodeSetParams",
            "cuGraphExecKernelNodeSetParams",
            "cuGraphExecKernelNodeSetParams_v2",
            "cuGraphExecMemcpyNodeSetParams",
            "cuGraphExecMemsetNodeSetParams",
            "cuGraphExecNodeSetParams",
            "cuGraphExecUpdate",
            "cuGraphExecUpdate_v2",
            "cuGraphExternalSemaphoresSignalNodeSetParams",
            "cuGraphExternalSemaphoresWaitNodeSetParams",
            "cuGraphHostNodeSetParams",
            "cuGraphKernelNodeCopyAttributes",
            "cuGraphKernelNodeSetAttribute",
            "cuGraphKernelNodeSetParams",
            "cuGraphKernelNodeSetParams_v2",
            "cuGraphMemcpyNodeSetParams",
            "cuGraphMemsetNodeSetParams",
            "cuGraphNodeSetEnabled",
            "cuGraphNodeSetParams",
            "cuGraphNodeSetParams_v2",
        ],
        "a node keeps its type, so none begins to allocate; what the graph takes is measured by its launches",
    ),
    (
        &[
            "cuCheckpointOperationComplete",
            "cuCheckpointProcessCheckpoint",
            "cuCheckpointProcessLock",
            "cuCheckpointProcessRestore",
            "cuCheckpointProcessUnlock",
        ],
        "a process that is off its GPU keeps its share, so that it can be put back",
    ),
];

/// Why a whole kind of function needs no hook; none where each needs one or a reason of its own.
fn reason_of_kind(does: Does) -> Option<&'static str> {
    match does {
        Does::Allocates
        | Does::Frees
        | Does::Holds
        | Does::Imports
        | Does::Grows
        | Does::Pools
        | Does::TellsMemory
        | Does::Launches
        | Does::BuildsGraph
        | Does::Captures
        | Does::MakesContext
        | Does::EndsContext
        | Does::FindsFunctions
        | Does::Checkpoints => None,
        Does::Moves => Some("managed memory counts in full where it was allocated, wherever it is"),
        Does::PinsHost => Some("memory of the host is not limited"),
        Does::Copies => Some("copies are left to the copy engines and not limited"),
        Does::Waits => Some("work is looked at by whoever launches next"),
        Does::LoadsCode | Does::UnloadsCode => {
            Some("code is not counted; the limits say what a context takes")
        }
        Does::Nothing => Some("there is nothing to act on"),
    }
}

/// What is wrong with a table of reasons, given what is hooked.
fn faults(hooked: &BTreeSet<&str>, reasons: &[Reason]) -> Vec<String> {
    let known: BTreeMap<&str, Does> = SYMBOLS.iter().map(|symbol| (symbol.name, symbol.does)).collect();
    let mut given = BTreeSet::new();
    let mut faults = Vec::new();
    for name in reasons.iter().flat_map(|(names, _)| names.iter().copied()) {
        match known.get(name) {
            None => faults.push(std::format!("{name} has a reason and is no function of the driver")),
            Some(does) if reason_of_kind(*does).is_some() => {
                faults.push(std::format!("{name} has a reason, and its kind has one already"));
            }
            Some(_) if hooked.contains(name) => {
                faults.push(std::format!("{name} has a reason and is hooked"))
            }
            Some(_) if !given.insert(name) => faults.push(std::format!("{name} has two reasons")),
            Some(_) => {}
        }
    }
    for (name, does) in known {
        if !hooked.contains(name) && !given.contains(name) && reason_of_kind(does).is_none() {
            faults
                .push(std::format!("{name} ({does:?}) is not hooked: hook it, or say in reasons.rs why not"));
        }
    }
    faults
}

#[test]
fn every_function_that_counts_is_hooked_or_has_a_reason() {
    let hooked: BTreeSet<&str> = super::all().map(|hook| hook.name).collect();
    let found = faults(&hooked, REASONS);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_table_with_a_fault_is_refused() {
    let mut hooked: BTreeSet<&str> = super::all().map(|hook| hook.name).collect();
    hooked.remove("cuMemCreate");
    hooked.insert("cuIpcGetMemHandle");
    let strange: &[Reason] =
        &[(&["cuNothing", "cuMemcpy", "cuMemPoolSetAttribute", "cuMemPoolSetAttribute"], "")];
    let reasons: Vec<Reason> = REASONS.iter().chain(strange).copied().collect();
    let mut found = faults(&hooked, &reasons);
    found.sort();
    assert_eq!(
        found,
        [
            "cuIpcGetMemHandle has a reason and is hooked",
            "cuMemCreate (Allocates) is not hooked: hook it, or say in reasons.rs why not",
            "cuMemPoolSetAttribute has two reasons",
            "cuMemPoolSetAttribute has two reasons",
            "cuMemcpy has a reason, and its kind has one already",
            "cuNothing has a reason and is no function of the driver",
        ]
    );
}
