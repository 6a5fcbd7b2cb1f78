//! Names of devices: which GPU, which way of using it, and which place of a MIG instance.
//!
//! `gpu-<minor>` and `gpu-<minor>-mig-<profile>-<profile id>-<first slot>` are the names NVIDIA's driver gives, so that what people wrote
//! against those keeps working; an ending says how the device is shared.

use carve_gpu_model::{ProfileId, ProfileName};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// How a device is shared between claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sharing {
    /// By carve's limiter: memory and compute of every claim are held to what it asked for.
    Limiter,
    /// By an MPS daemon with limits for every client.
    Mps,
    /// By turns, without limits.
    TimeSlicing,
}

impl Sharing {
    /// All of them, in the order in which devices are published.
    pub const ALL: [Sharing; 3] = [Sharing::Limiter, Sharing::Mps, Sharing::TimeSlicing];

    /// How a device's name ends.
    fn ending(self) -> &'static str {
        match self {
            Sharing::Limiter => "frac",
            Sharing::Mps => "mps",
            Sharing::TimeSlicing => "ts",
        }
    }

    /// What the attribute `sharing` says.
    pub fn attribute(self) -> &'static str {
        match self {
            Sharing::Limiter => "limiter",
            Sharing::Mps => "mps",
            Sharing::TimeSlicing => "timeslice",
        }
    }
}

/// Which instance of a GPU: a profile at a place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MigPlace {
    /// The profile's name, as a device's name can hold it: `1g10gb`, `1g10gb-me`.
    pub profile: String,
    /// The id that creation takes.
    pub id: ProfileId,
    /// First memory slot.
    pub start: u8,
}

impl MigPlace {
    /// A profile at a place.
    pub fn new(profile: &ProfileName, id: ProfileId, start: u8) -> Self {
        let speak = |letter: char| match letter {
            '.' => None,
            '+' | ',' => Some('-'),
            // `1g.24gb-me` and `1g.24gb+me` are different profiles with different ids.
            other => Some(other),
        };
        MigPlace { profile: profile.to_string().chars().filter_map(speak).collect(), id, start }
    }
}

/// The name of a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceName {
    /// Number of the GPU's device node.
    pub minor: u32,
    /// The instance, or the whole GPU.
    pub mig: Option<MigPlace>,
    /// How it is shared, or not at all.
    pub sharing: Option<Sharing>,
}

/// Why a text is not the name of a device.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is not the name of a device; names look like gpu-0, gpu-0-frac, gpu-0-mps, gpu-0-ts, gpu-0-mig-1g10gb-19-6 or gpu-0-mig-1g10gb-19-6-frac"
)]
pub struct DeviceNameError(pub String);

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gpu-{}", self.minor)?;
        if let Some(mig) = &self.mig {
            write!(f, "-mig-{}-{}-{}", mig.profile, mig.id, mig.start)?;
        }
        match self.sharing {
            Some(sharing) => write!(f, "-{}", sharing.ending()),
            None => Ok(()),
        }
    }
}

impl FromStr for DeviceName {
    type Err = DeviceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = parse(text);
        // Numbers have one way to be written, so that a device has one name.
        parsed.filter(|name| name.to_string() == text).ok_or_else(|| DeviceNameError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<DeviceName> {
    let mut rest = text.strip_prefix("gpu-")?;
    let mut sharing = None;
    for known in Sharing::ALL {
        if let Some(before) = rest.strip_suffix(known.ending()).and_then(|rest| rest.strip_suffix('-')) {
            (rest, sharing) = (before, Some(known));
            break;
        }
    }
    let Some((minor, place)) = rest.split_once("-mig-") else {
        return Some(DeviceName { minor: rest.parse().ok()?, mig: None, sharing });
    };
    let (place, start) = place.rsplit_once('-')?;
    let (profile, id) = place.rsplit_once('-')?;
    let id = ProfileId(id.parse().ok()?);
    let mig = MigPlace { profile: profile.to_owned(), id, start: start.parse().ok()? };
    Some(DeviceName { minor: minor.parse().ok()?, mig: Some(mig), sharing })
}

#[cfg(test)]
mod tests {
    use super::{DeviceName, MigPlace, Sharing};
    use carve_gpu_model::ProfileId;

    #[test]
    fn names_are_read_as_they_are_written() {
        let place = MigPlace::new(&"1g.10gb+me".parse().expect("a profile"), ProfileId(20), 6);
        for minor in [0, 7, 15] {
            for mig in [None, Some(place.clone())] {
                for sharing in [None].into_iter().chain(Sharing::ALL.map(Some)) {
                    let name = DeviceName { minor, mig: mig.clone(), sharing };
                    assert_eq!(name.to_string().parse(), Ok(name));
                }
            }
        }
        assert_eq!(
            DeviceName { minor: 3, mig: Some(place), sharing: Some(Sharing::Mps) }.to_string(),
            "gpu-3-mig-1g10gb-me-20-6-mps"
        );
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in [
            "",
            "gpu-",
            "gpu",
            "gpu-x",
            "gpu-00",
            "gpu-+1",
            "gpu-0-",
            "gpu-0-fraction",
            "gpu-0-mig-1g10gb",
            "gpu-0-mig-1g10gb-19",
            "gpu-0-mig-1g10gb-19-x",
            "gpu-0-mig-1g10gb-019-0",
            "GPU-0",
        ] {
            assert!(text.parse::<DeviceName>().is_err(), "{text}");
        }
    }
}
