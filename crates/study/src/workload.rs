//! What tenants do on the GPU.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a tenant does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Nothing at all: what the harness itself costs.
    Empty,
    /// Inference, one request after the other, one sample in each.
    Light,
    /// Inference, one request after the other, a batch in each.
    Heavy,
    /// Light requests that come when they like, whether the one before is answered or not.
    LightOpen,
    /// Batches that come when they like.
    HeavyOpen,
    /// Products of small matrices.
    Batch,
    /// Products without end, and all the memory there is.
    Burn,
    /// Copies without end.
    Bandwidth,
    /// Light inference by PyTorch.
    TorchLight,
    /// Heavy inference by PyTorch.
    TorchHeavy,
    /// Small products by PyTorch.
    TorchBatch,
    /// Large products by PyTorch.
    TorchBurn,
    /// Small products by CuPy.
    CupyBatch,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Rounds of a loop, a second.
    Rounds,
    /// Requests, a second.
    Requests,
    /// Products of two matrices, a second.
    Products,
    /// 10^12 floating-point operations a second.
    Teraflops,
    /// 10^9 bytes a second, read and written.
    Gigabytes,
}

/// Kinds of work that people ask about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Inference that leaves much of the GPU idle.
    LightInference,
    /// Inference that one server fills a GPU with.
    HeavyInference,
    /// Jobs of small pieces.
    SmallBatch,
    /// Jobs that a GPU is hardly enough for.
    Intensive,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 4] =
        [Class::LightInference, Class::HeavyInference, Class::SmallBatch, Class::Intensive];

    /// For people.
    pub const fn title(self) -> &'static str {
        match self {
            Class::LightInference => "light inference",
            Class::HeavyInference => "heavy inference",
            Class::SmallBatch => "small batch jobs",
            Class::Intensive => "GPU-intensive jobs",
        }
    }

    /// What it is judged by.
    pub const fn workload(self) -> Workload {
        match self {
            Class::LightInference => Workload::Light,
            Class::HeavyInference => Workload::Heavy,
            Class::SmallBatch => Workload::Batch,
            Class::Intensive => Workload::Burn,
        }
    }
}

impl Unit {
    /// Behind a number.
    pub const fn word(self) -> &'static str {
        match self {
            Unit::Rounds => "rounds/s",
            Unit::Requests => "requests/s",
            Unit::Products => "products/s",
            Unit::Teraflops => "TFLOP/s",
            Unit::Gigabytes => "GB/s",
        }
    }
}

impl Workload {
    /// All of them, in the order of tables.
    pub const ALL: [Workload; 13] = [
        Workload::Empty,
        Workload::Light,
        Workload::Heavy,
        Workload::LightOpen,
        Workload::HeavyOpen,
        Workload::Batch,
        Workload::Burn,
        Workload::Bandwidth,
        Workload::TorchLight,
        Workload::TorchHeavy,
        Workload::TorchBatch,
        Workload::TorchBurn,
        Workload::CupyBatch,
    ];

    /// On the command line and in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Workload::Empty => "empty",
            Workload::Light => "light",
            Workload::Heavy => "heavy",
            Workload::LightOpen => "light-open",
            Workload::HeavyOpen => "heavy-open",
            Workload::Batch => "batch",
            Workload::Burn => "burn",
            Workload::Bandwidth => "bandwidth",
            Workload::TorchLight => "torch-light",
            Workload::TorchHeavy => "torch-heavy",
            Workload::TorchBatch => "torch-batch",
            Workload::TorchBurn => "torch-burn",
            Workload::CupyBatch => "cupy-batch",
        }
    }

    /// For people.
    pub const fn title(self) -> &'static str {
        match self {
            Workload::Empty => "empty loop",
            Workload::Light => "light inference",
            Workload::Heavy => "heavy inference",
            Workload::LightOpen => "light inference, open loop",
            Workload::HeavyOpen => "heavy inference, open loop",
            Workload::Batch => "small batch job",
            Workload::Burn => "GPU-intensive job",
            Workload::Bandwidth => "memory bandwidth",
            Workload::TorchLight => "light inference (PyTorch)",
            Workload::TorchHeavy => "heavy inference (PyTorch)",
            Workload::TorchBatch => "small batch job (PyTorch)",
            Workload::TorchBurn => "GPU-intensive job (PyTorch)",
            Workload::CupyBatch => "small batch job (CuPy)",
        }
    }

    /// What is counted.
    pub const fn unit(self) -> Unit {
        match self {
            Workload::Empty => Unit::Rounds,
            Workload::Light
            | Workload::Heavy
            | Workload::LightOpen
            | Workload::HeavyOpen
            | Workload::TorchLight
            | Workload::TorchHeavy => Unit::Requests,
            Workload::Batch | Workload::TorchBatch | Workload::CupyBatch => Unit::Products,
            Workload::Burn | Workload::TorchBurn => Unit::Teraflops,
            Workload::Bandwidth => Unit::Gigabytes,
        }
    }

    /// Whether somebody waits for each piece, so that latency counts.
    pub const fn is_inference(self) -> bool {
        matches!(self.unit(), Unit::Requests)
    }

    /// Whether it is a job of so much work, which has a time of completion.
    pub const fn is_job(self) -> bool {
        matches!(self.unit(), Unit::Products)
    }

    /// Where requests come when they like: the one whose rate they are a part of.
    pub const fn closed(self) -> Option<Workload> {
        match self {
            Workload::LightOpen => Some(Workload::Light),
            Workload::HeavyOpen => Some(Workload::Heavy),
            _ => None,
        }
    }

    /// The Python package that it needs.
    pub const fn package(self) -> Option<&'static str> {
        match self {
            Workload::TorchLight | Workload::TorchHeavy | Workload::TorchBatch | Workload::TorchBurn => {
                Some("torch")
            }
            Workload::CupyBatch => Some("cupy"),
            _ => None,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Workload::ALL.into_iter().find(|one| one.word() == text);
        known.ok_or_else(|| {
            let words: Vec<&str> = Workload::ALL.iter().map(|one| one.word()).collect();
            format!("'{text}' is no workload; expected one of {}", words.join(", "))
        })
    }
}
