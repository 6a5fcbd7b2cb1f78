//! Functions that begin and end what a process has on a GPU: contexts, code, ways to more functions.

/// Names of [`Does::MakesContext`](crate::Does::MakesContext). Attaching and retaining add a user to a
/// context that may be there already.
pub(crate) const MAKES_CONTEXT: &[&str] = &[
    "cuCtxAttach",
    "cuCtxCreate",
    "cuCtxCreate_v2",
    "cuCtxCreate_v3",
    "cuCtxCreate_v4",
    "cuDevicePrimaryCtxRetain",
    "cuGLCtxCreate",
    "cuGLCtxCreate_v2",
    "cuGreenCtxCreate",
    "cuVDPAUCtxCreate",
    "cuVDPAUCtxCreate_v2",
];

/// Names of [`Does::EndsContext`](crate::Does::EndsContext).
pub(crate) const ENDS_CONTEXT: &[&str] = &[
    "cuCtxDestroy",
    "cuCtxDestroy_v2",
    "cuCtxDetach",
    "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxReset",
    "cuDevicePrimaryCtxReset_v2",
    "cuGreenCtxDestroy",
];

/// Names of [`Does::LoadsCode`](crate::Does::LoadsCode). With lazy loading, asking for a function or a
/// variable is what loads it.
pub(crate) const LOADS_CODE: &[&str] = &[
    "cuFuncLoad",
    "cuKernelGetFunction",
    "cuLibraryGetGlobal",
    "cuLibraryGetManaged",
    "cuLibraryGetModule",
    "cuLibraryGetUnifiedFunction",
    "cuLibraryLoadData",
    "cuLibraryLoadFromFile",
    "cuModuleGetFunction",
    "cuModuleLoad",
    "cuModuleLoadData",
    "cuModuleLoadDataEx",
    "cuModuleLoadFatBinary",
];

/// Names of [`Does::UnloadsCode`](crate::Does::UnloadsCode).
pub(crate) const UNLOADS_CODE: &[&str] = &["cuLibraryUnload", "cuModuleUnload"];

/// Names of [`Does::FindsFunctions`](crate::Does::FindsFunctions). An export table holds functions without
/// names, past every table of symbols.
pub(crate) const FINDS_FUNCTIONS: &[&str] = &["cuGetExportTable", "cuGetProcAddress", "cuGetProcAddress_v2"];

/// Names of [`Does::Checkpoints`](crate::Does::Checkpoints). They name a process by its id, which may be
/// another one.
pub(crate) const CHECKPOINTS: &[&str] = &[
    "cuCheckpointOperationComplete",
    "cuCheckpointProcessCheckpoint",
    "cuCheckpointProcessLock",
    "cuCheckpointProcessRestore",
    "cuCheckpointProcessUnlock",
];
