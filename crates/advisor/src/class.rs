//! Kinds of work that usually leave much of a GPU idle, and what suits each where nothing was measured.

use carve_gpu_model::Mechanism;
use serde::{Deserialize, Serialize};

/// What kind of work a workload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Answers to requests, in small batches.
    Inference,
    /// Simulations that compute on processors and GPUs in turns.
    Hpc,
    /// People who try something out.
    Notebook,
    /// Tasks of data analytics.
    Spark,
    /// Pictures.
    Rendering,
    /// Tests of changes.
    Ci,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 6] =
        [Class::Inference, Class::Hpc, Class::Notebook, Class::Spark, Class::Rendering, Class::Ci];

    /// As it is written in `carve.dev/class`.
    pub const fn word(self) -> &'static str {
        match self {
            Class::Inference => "inference",
            Class::Hpc => "hpc",
            Class::Notebook => "notebook",
            Class::Spark => "spark",
            Class::Rendering => "rendering",
            Class::Ci => "ci",
        }
    }

    /// The one of this name.
    pub fn named(word: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.word() == word)
    }

    /// Whether somebody waits for each answer, usually.
    pub const fn is_sensitive(self) -> bool {
        matches!(self, Class::Inference)
    }

    /// Whether it draws. What draws is held neither by MPS nor by the limiter, which know CUDA alone.
    pub const fn is_graphics(self) -> bool {
        matches!(self, Class::Rendering)
    }

    /// What usually suits it, and why.
    pub const fn default_advice(self) -> (Mechanism, &'static str) {
        match self {
            Class::Inference => (
                Mechanism::Mps,
                "small batches leave most multiprocessors idle; under MPS with limits several servers run side by side, and none waits for the turn of another",
            ),
            Class::Hpc => (
                Mechanism::Mig,
                "work that alternates between processors and GPU keeps a MIG device busy, with memory bandwidth of its own; MPS where the GPU has no MIG",
            ),
            Class::Notebook => (
                Mechanism::TimeSlicing,
                "people think longer than GPUs compute, and a wait of milliseconds is not noticed; memory must be agreed on, because nothing limits it",
            ),
            Class::Spark => (
                Mechanism::Mps,
                "many small tasks at once fill a GPU that one of them can not; as many shares as an executor runs tasks at a time",
            ),
            Class::Rendering => (
                Mechanism::TimeSlicing,
                "it comes in bursts, and what draws is outside MPS and the limiter, which know CUDA alone; only turns or a whole GPU serve it",
            ),
            Class::Ci => (
                Mechanism::TimeSlicing,
                "tests take any GPU that is there and nobody waits for single answers; of low priority, so that others can push them aside",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Class;

    #[test]
    fn words_lead_back() {
        assert!(Class::ALL.into_iter().all(|class| Class::named(class.word()) == Some(class)));
        assert_eq!(Class::named("training"), None);
    }
}
