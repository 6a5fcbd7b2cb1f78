//! What CUDA answers when it does not do what it was asked, with what a person can do about it.

use std::fmt;
use thiserror::Error;

/// A `CUresult` other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaCode(pub u32);

impl CudaCode {
    /// `CUDA_ERROR_INVALID_VALUE`.
    pub const INVALID_VALUE: CudaCode = CudaCode(1);
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    pub const OUT_OF_MEMORY: CudaCode = CudaCode(2);
    /// `CUDA_ERROR_NO_DEVICE`.
    pub const NO_DEVICE: CudaCode = CudaCode(100);
    /// `CUDA_ERROR_INVALID_DEVICE`.
    pub const INVALID_DEVICE: CudaCode = CudaCode(101);
    /// `CUDA_ERROR_INVALID_PTX`.
    pub const INVALID_PTX: CudaCode = CudaCode(218);
    /// `CUDA_ERROR_NOT_FOUND`.
    pub const NOT_FOUND: CudaCode = CudaCode(500);
    /// `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub const ILLEGAL_ADDRESS: CudaCode = CudaCode(700);
    /// `CUDA_ERROR_NOT_SUPPORTED`.
    pub const NOT_SUPPORTED: CudaCode = CudaCode(801);
    /// `CUDA_ERROR_LAUNCH_FAILED`.
    pub const LAUNCH_FAILED: CudaCode = CudaCode(719);

    /// What a person can look into; empty where only the code itself helps.
    fn advice(self) -> &'static str {
        match self.0 {
            2 => "; another process may hold the memory, or the slice has less than this takes",
            46 => "; the GPU is in exclusive mode and taken, or its MPS server does not let this process in",
            100 => "; no GPU is visible: look at CUDA_VISIBLE_DEVICES and at what the container was given",
            101 => "; no such device, or one named twice: look at CUDA_VISIBLE_DEVICES",
            209 | 222 => "; the driver is too old for this GPU's code: install a newer one",
            214 => "; the GPU's memory is damaged (ECC): drain the node and reset the GPU",
            700 | 719 => "; the kernel died on the GPU: look for XIDs in dmesg",
            802 => "; the system is not ready: is nvidia-fabricmanager running?",
            803 => {
                "; the library and the loaded kernel driver are of different versions: reload the driver or reboot"
            }
            805..=807 => {
                "; the MPS server can not be reached: is its daemon running, and CUDA_MPS_PIPE_DIRECTORY its?"
            }
            808 | 809 => "; the MPS server serves as many clients as it can",
            999 => "; the driver may be in a bad state: look into dmesg",
            _ => "",
        }
    }
}

impl fmt::Display for CudaCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// CUDA refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("CUDA could not {doing}: {text} ({name}, {code}){advice}", advice = code.advice())]
pub struct CudaError {
    /// What was being done, as in "could not …".
    pub doing: String,
    /// The number.
    pub code: CudaCode,
    /// The library's name for it, such as `CUDA_ERROR_OUT_OF_MEMORY`.
    pub name: String,
    /// The library's sentence about it.
    pub text: String,
}
