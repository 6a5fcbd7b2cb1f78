//! One kind of GPU instance that a GPU offers, with its figures and legal placements.

use crate::{Evidence, Fact, Mebibytes, Placement, ProfileName};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The id `nvidia-smi` prints and instance creation takes (19, 14, 9, …).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProfileId(pub u32);

/// NVML's enumeration of GPU instance profiles, which is not the profile id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProfileIndex(pub u32);

impl ProfileIndex {
    /// One past the highest index NVML knows.
    pub const COUNT: u32 = 18;

    /// GPU slices of the profile with this index, and the attribute its name carries.
    pub fn shape(self) -> Option<(u64, Option<(char, &'static str)>)> {
        Some(match self.0 {
            0 | 9 => (1, None),
            1 => (2, None),
            2 => (3, None),
            3 => (4, None),
            4 => (7, None),
            5 => (8, None),
            6 => (6, None),
            7 => (1, Some(('+', "me"))),
            8 => (2, Some(('+', "me"))),
            10 => (1, Some(('+', "gfx"))),
            11 => (2, Some(('+', "gfx"))),
            12 => (4, Some(('+', "gfx"))),
            13 => (1, Some(('-', "me"))),
            14 => (2, Some(('-', "me"))),
            15 => (1, Some(('+', "me.all"))),
            16 => (2, Some(('+', "me.all"))),
            17 => (3, Some(('+', "gfx"))),
            _ => return None,
        })
    }
}

impl fmt::Display for ProfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Fixed-function engines that come with an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Engines {
    /// Copy engines.
    pub copy: u8,
    /// Video decoders.
    pub decoder: u8,
    /// Video encoders.
    pub encoder: u8,
    /// JPEG decoders.
    pub jpeg: u8,
    /// Optical flow accelerators.
    pub ofa: u8,
}

/// The kinds of engine, for naming one in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Copy engine.
    Copy,
    /// Video decoder.
    Decoder,
    /// Video encoder.
    Encoder,
    /// JPEG decoder.
    Jpeg,
    /// Optical flow accelerator.
    Ofa,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::Copy => "copy",
            Engine::Decoder => "decoder",
            Engine::Encoder => "encoder",
            Engine::Jpeg => "JPEG",
            Engine::Ofa => "OFA",
        })
    }
}

impl Engines {
    /// All kinds with their numbers, in the order `nvidia-smi` prints them.
    pub const fn each(self) -> [(Engine, u8); 5] {
        [
            (Engine::Copy, self.copy),
            (Engine::Decoder, self.decoder),
            (Engine::Encoder, self.encoder),
            (Engine::Jpeg, self.jpeg),
            (Engine::Ofa, self.ofa),
        ]
    }
}

/// One GPU instance profile of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProfile {
    /// The name people write.
    pub name: ProfileName,
    /// The id creation takes.
    pub id: ProfileId,
    /// NVML's index.
    pub index: ProfileIndex,
    /// Compute slices it takes.
    pub slices: u8,
    /// How many may exist at once.
    pub max_instances: u8,
    /// Memory of one instance, where known.
    pub memory: Option<Fact<Mebibytes>>,
    /// Multiprocessors of one instance, where known.
    pub multiprocessors: Option<Fact<u16>>,
    /// Engines of one instance.
    pub engines: Engines,
    /// Legal placements, in ascending order.
    pub placements: Vec<Placement>,
    /// How the placements are known.
    pub placement_evidence: Evidence,
}

impl GpuProfile {
    /// Slots one instance takes (all placements of a profile have one size).
    pub fn size(&self) -> u8 {
        self.placements.first().map_or(0, |placement| placement.size)
    }
}

/// The memory part of a profile's name, from what the driver reports.
///
/// NVIDIA's tools derive the number rather than read it: the instance's share of the GPU, rounded up to an eighth,
/// times the GPU's memory in whole GiB rounded up, rounded half away from zero.
pub(crate) fn name_gigabytes(instance: Mebibytes, total: crate::Bytes) -> u64 {
    if total.0 == 0 {
        return 0;
    }
    let share = instance.bytes().0 as f64 / total.0 as f64;
    let eighths = (share * 8.0).ceil() / 8.0;
    let whole_gibibytes = total.0.div_ceil(1 << 30) as f64;
    (eighths * whole_gibibytes).round() as u64
}

/// Names a profile the way NVIDIA's tools do, from its NVML index and memory.
pub(crate) fn derive_name(
    index: ProfileIndex,
    memory: Mebibytes,
    total: crate::Bytes,
) -> Option<ProfileName> {
    let (slices, attribute) = index.shape()?;
    Some(ProfileName::whole(slices, name_gigabytes(memory, total), attribute))
}
