//! The machines of a simulated fleet: `p4d.24xlarge=1,g5.2xlarge=4`, or a file that says more about them.

use carve_economics::InstanceType;
use carve_gpu_host::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// More machines than one process should pretend to be.
const MOST: u32 = 2_000;

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// What the cluster calls it.
    pub name: String,
    /// What it is: a type of a cloud, a preset, or `PRODUCT:COUNT`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Labels besides those that it has anyway.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl MachineSpec {
    /// Its GPUs.
    pub fn machine(&self) -> Result<Machine, FleetError> {
        machine(&self.kind).map(|machine| machine.named_as(&self.name))
    }
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fleet {
    /// By name.
    pub machines: Vec<MachineSpec>,
}

/// Why a fleet can not be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FleetError {
    /// Not `TYPE=COUNT`.
    #[error("'{0}' is not TYPE=COUNT; write for example p4d.24xlarge=1,g5.2xlarge=4")]
    Shape(String),
    /// No such machine.
    #[error(
        "there is no machine '{0}'; write a type of AWS, Azure or GCP that has NVIDIA GPUs, such as p4d.24xlarge, or PRODUCT:COUNT, such as h200-141gb:8"
    )]
    Unknown(String),
    /// A count that makes no sense.
    #[error("{0}: '{1}' is no number of machines from 1 to {MOST}")]
    Count(String, String),
    /// Too many in all.
    #[error("{0} machines are more than are simulated in one process; {MOST} are the most")]
    Many(u64),
    /// A file that does not read.
    #[error("the fleet does not read{}, {field}: {why}; {hint}", .line.map(|line| format!(" in line {line}")).unwrap_or_default())]
    File {
        /// Counted from 1, where it is known.
        line: Option<u64>,
        /// As in `machines[0].count`.
        field: String,
        /// What is wrong.
        why: String,
        /// What to write.
        hint: &'static str,
    },
    /// A machine that can not be simulated.
    #[error("machine '{0}' can not be simulated: {1}")]
    Machine(String, String),
    /// A name that no Node can have.
    #[error(
        "'{0}' is no name of a machine; write up to 50 lower case letters, digits and '-', beginning and ending with a letter or digit"
    )]
    Name(String),
    /// A label that no Node can have.
    #[error(
        "machine '{0}': the label '{1}: {2}' can not be; keys and values are up to 63 letters, digits, '-', '_' and '.', and a key may have a domain and '/' in front"
    )]
    Label(String, String, String),
    /// Two of one name.
    #[error("two machines are called '{0}'; give one of them another 'name'")]
    Twice(String),
    /// No machine at all.
    #[error("the fleet has no machines; write for example p4d.24xlarge=1")]
    Empty,
}

/// The machine of a type.
fn machine(kind: &str) -> Result<Machine, FleetError> {
    if let Ok(machine) = Machine::named(kind) {
        return Ok(machine);
    }
    let unknown = || FleetError::Unknown(kind.to_owned());
    let listed = InstanceType::named(kind).ok_or_else(unknown)?;
    let product = listed.product.ok_or_else(unknown)?;
    Machine::named(&format!("{product}:{}", listed.gpus)).map_err(|_| unknown())
}

/// Machines as a file has them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    machines: Vec<WrittenMachines>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenMachines {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    count: Option<i64>,
    /// What they are called; numbered where there are several.
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Reads a file, so that what is wrong is said with its line and its field.
fn read(text: &str) -> Result<Written, FleetError> {
    let mut field = String::new();
    let read = serde_saphyr::with_deserializer_from_str(text, |reader| {
        serde_path_to_error::deserialize(reader).map_err(|error| {
            field = error.path().to_string();
            error.into_inner()
        })
    });
    read.map_err(|error| {
        let why = error.without_snippet().to_string();
        let hint = match field.rsplit('.').next().unwrap_or_default() {
            _ if why.contains("unknown field") => {
                "known are machines, and type, count, name and labels of each"
            }
            "count" => "write a number, as in count: 4",
            "type" => "write a text, as in type: g5.2xlarge",
            "name" => "write a text, as in name: big",
            word if word == "labels" || field.contains(".labels.") => {
                "write texts, as in labels: {pool: train}, and put numbers in quotes"
            }
            _ => "write a list of machines, as in machines: [{type: g5.2xlarge, count: 4}]",
        };
        let field = if matches!(field.as_str(), "" | ".") { "machines".to_owned() } else { field };
        FleetError::File { line: error.location().map(|at| at.line()), field, why, hint }
    })
}

fn is_plain(text: &str, most: usize, besides: &[u8]) -> bool {
    let (bytes, inside) = (text.as_bytes(), |letter: &u8| letter.is_ascii_alphanumeric());
    bytes.len() <= most
        && bytes.iter().all(|letter| inside(letter) || besides.contains(letter))
        && bytes.first().is_none_or(inside)
        && bytes.last().is_none_or(inside)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && is_plain(name, 50, b"-") && !name.bytes().any(|letter| letter.is_ascii_uppercase())
}

fn is_label(key: &str, value: &str) -> bool {
    let (domain, name) = key.split_once('/').unwrap_or(("a", key));
    let named = !name.is_empty() && is_plain(name, 63, b"-_.");
    named && !domain.is_empty() && is_plain(domain, 253, b"-.") && is_plain(value, 63, b"-_.")
}

impl Fleet {
    /// Reads `TYPE=COUNT,…`.
    pub fn parse(text: &str) -> Result<Self, FleetError> {
        let mut written = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (kind, count) = part.split_once('=').ok_or_else(|| FleetError::Shape(part.to_owned()))?;
            let (kind, count) = (kind.trim(), count.trim());
            let number = count.parse().map_err(|_| FleetError::Count(kind.to_owned(), count.to_owned()))?;
            let labels = BTreeMap::new();
            written.push(WrittenMachines { kind: kind.to_owned(), count: Some(number), name: None, labels });
        }
        Fleet::of(Written { machines: written })
    }

    /// Reads a file.
    pub fn from_yaml(text: &str) -> Result<Self, FleetError> {
        let written: Written = read(text)?;
        Fleet::of(written)
    }

    fn of(written: Written) -> Result<Self, FleetError> {
        let mut all = 0_u64;
        for one in &written.machines {
            let count = one.count.unwrap_or(1);
            let wrong = || FleetError::Count(one.kind.clone(), count.to_string());
            all = all.saturating_add(u64::try_from(count).ok().filter(|count| *count > 0).ok_or_else(wrong)?);
        }
        if all > u64::from(MOST) {
            return Err(FleetError::Many(all));
        }
        let mut machines: Vec<MachineSpec> = Vec::new();
        for one in written.machines {
            machine(&one.kind)?;
            let count = one.count.unwrap_or(1);
            if let Some(name) = one.name.as_ref().filter(|name| !is_name(name)) {
                return Err(FleetError::Name(name.clone()));
            }
            if let Some((key, value)) = one.labels.iter().find(|(key, value)| !is_label(key, value)) {
                return Err(FleetError::Label(one.kind, key.clone(), value.clone()));
            }
            let plain: String =
                one.kind.split(['.', ':']).next().unwrap_or("node").to_lowercase().replace('_', "-");
            let numbered = one.name.is_none() || count > 1;
            let stem = one.name.unwrap_or(plain);
            let taken =
                |machines: &[MachineSpec], name: &str| machines.iter().any(|known| known.name == name);
            let mut number = 0_u32;
            for _ in 0..count {
                let name = if numbered {
                    let mut names = (number + 1..).map(|number| (number, format!("{stem}-{number}")));
                    let free = names.find(|(_, name)| !taken(&machines, name));
                    let (last, name) = free.unwrap_or_default();
                    number = last;
                    name
                } else {
                    stem.clone()
                };
                if taken(&machines, &name) {
                    return Err(FleetError::Twice(name));
                }
                machines.push(MachineSpec { name, kind: one.kind.clone(), labels: one.labels.clone() });
            }
        }
        match machines.is_empty() {
            true => Err(FleetError::Empty),
            false => Ok(Fleet { machines }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fleet, FleetError};

    fn names(fleet: &Fleet) -> Vec<&str> {
        fleet.machines.iter().map(|machine| machine.name.as_str()).collect()
    }

    #[test]
    fn machines_get_names() {
        let fleet = Fleet::parse("p4d.24xlarge=1, g5.2xlarge=2,g5.xlarge=1,h200-141gb:8=1").expect("a fleet");
        assert_eq!(names(&fleet), ["p4d-1", "g5-1", "g5-2", "g5-3", "h200-141gb-1"]);
        let file = "machines:\n- type: p4d.24xlarge\n  name: big\n  labels: {pool: train}\n- type: g5.xlarge\n  count: 2\n  name: small\n";
        let fleet = Fleet::from_yaml(file).expect("a fleet");
        assert_eq!(names(&fleet), ["big", "small-1", "small-2"]);
        assert_eq!(fleet.machines[0].labels["pool"], "train");
        let gpus: usize =
            fleet.machines.iter().map(|one| one.machine().expect("known").groups()[0].count as usize).sum();
        assert_eq!(gpus, 10);
    }

    #[test]
    fn what_can_not_be_is_refused_with_words() {
        for (text, words) in [
            ("", "no machines"),
            ("p4d.24xlarge", "TYPE=COUNT"),
            ("p4d.24xlarge=many", "no number"),
            ("p4d.24xlarge=0", "no number"),
            ("toaster=1", "no machine 'toaster'"),
            ("p4d.24xlarge=9999", "more than are simulated"),
        ] {
            let error = Fleet::parse(text).expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        for (text, words) in [
            ("machines: 3", "write a list of machines"),
            ("", "write a list of machines"),
            ("machines: [", "does not read"),
            ("machines:\n- type: g5.xlarge\n  colour: red\n", "line 3"),
            (
                "machines: [{type: g5.xlarge, colour: red}]",
                "known are machines, and type, count, name and labels",
            ),
            (
                "machines:\n- {type: g5.xlarge}\n- {type: g5.xlarge, count: many}\n",
                "line 3, machines[1].count",
            ),
            ("machines: [{type: g5.xlarge, count: -1}]", "'-1' is no number of machines from 1 to 2000"),
            ("machines: [{type: g5.xlarge, count: 99999999999999999999}]", "write a number"),
            ("machines: [{type: g5.xlarge, labels: [a]}]", "write texts, as in labels"),
            ("machines: [{type: g5.xlarge, labels: {a: not so}}]", "the label 'a: not so' can not be"),
            ("machines: [{type: g5.xlarge, name: Big One}]", "'Big One' is no name of a machine"),
            ("machines: [{count: 2}]", "type"),
            (
                "machines: [{type: g5.xlarge, name: a}, {type: g5.xlarge, name: a}]",
                "two machines are called 'a'",
            ),
        ] {
            let error = Fleet::from_yaml(text).expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert_eq!(Fleet::parse(" , "), Err(FleetError::Empty));
    }
}
