//! The version of an API server, as far as it decides what may be published.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A version of Kubernetes: `v1.36.4`, `v1.35.4-eks-a1b2c3`, `v1.36.2+k3s1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerVersion {
    /// 1.
    pub major: u32,
    /// What people call the release.
    pub minor: u32,
    /// Which correction of it.
    pub patch: u32,
    /// Whether it was made before the version it is named after: `v1.36.2-rc.0` lacks what came with 1.36.2.
    pub pre_release: bool,
}

impl ServerVersion {
    /// A version that was released.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        ServerVersion { major, minor, patch, pre_release: false }
    }
}

impl Ord for ServerVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        let key =
            |version: &ServerVersion| (version.major, version.minor, version.patch, !version.pre_release);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for ServerVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        f.write_str(if self.pre_release { " (a pre-release)" } else { "" })
    }
}

/// Why a text is not a version.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is not a version of Kubernetes; one looks like v1.36.4, and more may follow after '-' or '+'; see what 'kubectl version' says of the server"
)]
pub struct ServerVersionError(pub String);

impl FromStr for ServerVersion {
    type Err = ServerVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ServerVersionError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<ServerVersion> {
    let plain = text.strip_prefix('v').unwrap_or(text);
    let (numbers, rest) = plain.split_at(plain.find(['-', '+']).unwrap_or(plain.len()));
    let mut numbers = numbers.split('.').map(|number| {
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| number.parse::<u32>().ok()).flatten()
    });
    let (major, minor, patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
    // What follows `-` is a pre-release only in the words of Kubernetes itself: clouds put their own there.
    let early = ["-alpha.", "-beta.", "-rc."].iter().any(|word| rest.starts_with(word));
    numbers.next().is_none().then_some(ServerVersion { major, minor, patch, pre_release: early })
}

#[cfg(test)]
mod tests {
    use super::ServerVersion;

    #[test]
    fn versions_are_read_with_what_clouds_add_to_them() {
        for (text, expected) in [
            ("v1.36.4", (1, 36, 4, false)),
            ("1.36.4", (1, 36, 4, false)),
            ("v1.35.4-eks-a1b2c3d", (1, 35, 4, false)),
            ("v1.34.1-gke.1829001", (1, 34, 1, false)),
            ("v1.36.2+k3s1", (1, 36, 2, false)),
            ("v1.36.2+rke2r1", (1, 36, 2, false)),
            ("v1.36.2-rc.0", (1, 36, 2, true)),
            ("v1.37.0-alpha.3.44+0123456789abcd", (1, 37, 0, true)),
        ] {
            let read: ServerVersion = text.parse().expect(text);
            assert_eq!((read.major, read.minor, read.patch, read.pre_release), expected, "{text}");
        }
        for text in [
            "",
            "v",
            "v1",
            "v1.36",
            "1.36.",
            "v1.+6.4",
            "v1.36.4.5",
            "vv1.36.4",
            "v1.36.99999999999",
            "master",
        ] {
            assert!(text.parse::<ServerVersion>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_pre_release_comes_before_what_it_is_named_after() {
        let version = |text: &str| text.parse::<ServerVersion>().expect(text);
        assert!(version("v1.36.2-rc.0") < version("v1.36.2"));
        assert!(version("v1.36.2-rc.0") > version("v1.36.1"));
        assert!(version("v1.36.10") > version("v1.36.9"));
        assert!(version("v1.37.0-alpha.1") > version("v1.36.4"));
    }
}
