//! The NVLink fabric that reaches over several machines: which cluster of GPUs a GPU belongs to, and which clique in it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Identity of all GPUs that one NVLink fabric joins, over however many machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterUuid([u8; 16]);

/// Number of a set of GPUs inside a fabric that can use each other's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CliqueId(pub u32);

/// Where a GPU belongs in a fabric. Workloads over several machines must stay inside one cluster and clique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    /// The fabric.
    pub cluster: ClusterUuid,
    /// The clique in it.
    pub clique: CliqueId,
}

/// The text is no identity of a fabric.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is not the UUID of a fabric; write 32 hexadecimal digits, not all of them zero, such as \
     01234567-89ab-4cde-8f01-23456789abcd"
)]
pub struct ParseClusterError(pub String);

impl ClusterUuid {
    /// From the driver's bytes. All zero means that there is no fabric.
    pub fn new(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(ClusterUuid(bytes))
    }

    /// The driver's bytes.
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for ClusterUuid {
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

impl FromStr for ClusterUuid {
    type Err = ParseClusterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseClusterError(text.to_owned());
        let digits: String = text.chars().filter(|letter| *letter != '-').collect();
        // A sign would be read as part of the number.
        if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let number = u128::from_str_radix(&digits, 16).map_err(|_| wrong())?;
        ClusterUuid::new(number.to_be_bytes()).ok_or_else(wrong)
    }
}

impl TryFrom<String> for ClusterUuid {
    type Error = ParseClusterError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ClusterUuid> for String {
    fn from(cluster: ClusterUuid) -> String {
        cluster.to_string()
    }
}

impl fmt::Display for CliqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::ClusterUuid;

    #[test]
    fn a_cluster_is_written_and_read_as_a_uuid() {
        let bytes = std::array::from_fn(|position| position as u8 * 0x11);
        let cluster = ClusterUuid::new(bytes).unwrap();
        assert_eq!(cluster.to_string(), "00112233-4455-6677-8899-aabbccddeeff");
        assert_eq!(cluster.to_string().parse(), Ok(cluster));
        assert_eq!("00112233445566778899AABBCCDDEEFF".parse(), Ok(cluster));
        assert_eq!(cluster.bytes(), bytes);
    }

    #[test]
    fn what_is_no_cluster_is_refused() {
        let zero = "00000000-0000-0000-0000-000000000000";
        for text in ["", zero, "+0112233445566778899aabbccddeeff", "00112233-4455-6677-8899-aabbccddee"] {
            let error = text.parse::<ClusterUuid>().unwrap_err();
            assert!(error.to_string().contains("32 hexadecimal digits"), "{error}");
        }
        assert_eq!(ClusterUuid::new([0; 16]), None);
    }
}
