//! The identity of a CUDA device: 16 bytes, which NVML writes as text with `GPU-` or `MIG-` in front.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Identity of a GPU or of a MIG device as CUDA tells it. CUDA does not say which of the two it is, so the written
/// form has no prefix, and either prefix is accepted when one is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceUuid(pub [u8; 16]);

/// Not the identity of a device.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is no UUID of a GPU or MIG device; expected a form such as GPU-8932f937-d72c-4106-c12f-20bd9faed9f6 or \
     MIG-…, as `nvidia-smi -L` prints"
)]
pub struct ParseUuidError(pub String);

impl FromStr for DeviceUuid {
    type Err = ParseUuidError;

    fn from_str(text: &str) -> Result<Self, ParseUuidError> {
        let refused = || ParseUuidError(text.to_owned());
        let bare = text.strip_prefix("GPU-").or_else(|| text.strip_prefix("MIG-")).unwrap_or(text);
        let groups: Vec<&str> = bare.split('-').collect();
        if !groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]) {
            return Err(refused());
        }
        let digits = groups.concat();
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(refused());
        }
        u128::from_str_radix(&digits, 16).map(|value| DeviceUuid(value.to_be_bytes())).map_err(|_| refused())
    }
}

impl fmt::Display for DeviceUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.0.iter().enumerate() {
            if matches!(position, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for DeviceUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceUuid({self})")
    }
}

impl Serialize for DeviceUuid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DeviceUuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::DeviceUuid;

    #[test]
    fn prefixes_do_not_matter_and_the_rest_does() {
        let bare = "8932f937-d72c-4106-c12f-20bd9faed9f6";
        let uuid: DeviceUuid = bare.parse().unwrap();
        assert_eq!((uuid.0[0], uuid.0[15]), (0x89, 0xf6));
        assert_eq!(uuid.to_string(), bare);
        assert_eq!(format!("GPU-{bare}").parse(), Ok(uuid));
        assert_eq!(format!("MIG-{}", bare.to_uppercase()).parse(), Ok(uuid));
        let shifted = "8932f93-7d72c-4106-c12f-20bd9faed9f6";
        let signed = "+932f937-d72c-4106-c12f-20bd9faed9f6";
        for wrong in ["", "GPU-", "0", &bare[1..], &format!("{bare}0"), shifted, signed, "MIG-GPU-1/2/3"] {
            assert!(wrong.parse::<DeviceUuid>().is_err(), "{wrong}");
        }
    }
}
