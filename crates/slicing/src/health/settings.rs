//! Which errors the operator wants acted on, and how a GPU proves that it is well again.

use super::Seconds;
use carve_gpu_model::{Xid, XidClass};
use std::collections::BTreeSet;

/// What health checks do. The default acts on what the catalogue calls sick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthSettings {
    off: Choice,
    on: Choice,
    /// Whether a probe that fails makes a GPU sick. Probes that succeed always count towards recovery.
    pub probes_act: bool,
    /// How many good probes in a row make a sick GPU well; 0 for none ever, so that only a reset helps.
    pub good_probes: u32,
    /// Good probes closer together than this count once: three answers within one second prove little.
    pub probe_spacing: Seconds,
}

/// What a list of XIDs in the environment chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Choice {
    All,
    Listed(BTreeSet<Xid>),
}

impl Choice {
    fn has(&self, xid: Xid) -> bool {
        match self {
            Choice::All => true,
            Choice::Listed(listed) => listed.contains(&xid),
        }
    }
}

/// What is to be done about an XID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XidVerdict {
    /// Mark what it is about; the class says what heals it.
    Sick(XidClass),
    /// Nothing: the class says why.
    Harmless(XidClass),
    /// Nothing: the operator switched it off.
    SwitchedOff,
}

impl Default for HealthSettings {
    fn default() -> Self {
        let none = || Choice::Listed(BTreeSet::new());
        HealthSettings {
            off: none(),
            on: none(),
            probes_act: true,
            good_probes: 3,
            probe_spacing: Seconds(10),
        }
    }
}

impl HealthSettings {
    /// Reads `DP_DISABLE_HEALTHCHECKS` and `DP_ENABLE_HEALTHCHECKS`; empty where they are not set.
    ///
    /// Both are `all`, `xids`, or a list of XIDs. What is enabled wins over what is disabled and over the catalogue, so
    /// that `all` and `79` act on 79 alone, as NVIDIA's plugin promises and does not do. `all` in the first switches
    /// failing probes off too. A lost GPU and an MPS daemon that is not ready count in any case: nothing can run there.
    /// What can not be read is passed over, as NVIDIA's plugin does, with a remark.
    pub fn parse(disable: &str, enable: &str, remarks: &mut Vec<String>) -> Self {
        let probes_act = !words(disable).any(|word| word.eq_ignore_ascii_case("all"));
        HealthSettings {
            off: choice("DP_DISABLE_HEALTHCHECKS", disable, remarks),
            on: choice("DP_ENABLE_HEALTHCHECKS", enable, remarks),
            probes_act,
            ..HealthSettings::default()
        }
    }

    /// What is to be done about an XID.
    pub fn verdict(&self, xid: Xid) -> XidVerdict {
        let class = xid.class();
        if self.on.has(xid) {
            // Asked for by number, a harmless error makes a GPU sick until it proves well.
            XidVerdict::Sick(class.max(XidClass::Recoverable))
        } else if !class.is_sick() {
            XidVerdict::Harmless(class)
        } else if self.off.has(xid) {
            XidVerdict::SwitchedOff
        } else {
            XidVerdict::Sick(class)
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

fn choice(variable: &str, text: &str, remarks: &mut Vec<String>) -> Choice {
    let mut listed = BTreeSet::new();
    let mut all = false;
    for word in words(text) {
        if word.eq_ignore_ascii_case("all") || word.eq_ignore_ascii_case("xids") {
            all = true;
            continue;
        }
        match word.parse() {
            Ok(number) if number > 0 => {
                listed.insert(Xid(number));
            }
            _ => remarks.push(format!(
                "{variable}: '{word}' is passed over; write 'all', 'xids' or XIDs with commas, for example 48,79"
            )),
        }
    }
    if all { Choice::All } else { Choice::Listed(listed) }
}

#[cfg(test)]
mod tests {
    use super::{HealthSettings, XidVerdict};
    use carve_gpu_model::{Xid, XidClass};

    fn parse(disable: &str, enable: &str) -> HealthSettings {
        let mut remarks = Vec::new();
        let settings = HealthSettings::parse(disable, enable, &mut remarks);
        assert_eq!(remarks, Vec::<String>::new());
        settings
    }

    /// Which of some XIDs of every class act: 63 informational, 13 and 94 application, 48 recoverable, 79 fatal, 999
    /// unknown.
    fn acting(settings: &HealthSettings) -> Vec<u64> {
        let sick = |xid: &u64| matches!(settings.verdict(Xid(*xid)), XidVerdict::Sick(_));
        [13, 48, 63, 79, 94, 999].into_iter().filter(sick).collect()
    }

    #[test]
    fn every_combination_that_nvidia_promises() {
        for (disable, enable, expected) in [
            ("", "", vec![48, 79, 999]),
            ("all", "", vec![]),
            ("xids", "", vec![]),
            ("XIDS", "", vec![]),
            ("48,xids", "", vec![]),
            ("79", "", vec![48, 999]),
            (" 48 , 79,", "", vec![999]),
            ("all", "79", vec![79]),
            ("xids", "13,79", vec![13, 79]),
            ("79", "79", vec![48, 79, 999]),
            ("", "13", vec![13, 48, 79, 999]),
            ("all", "all", vec![13, 48, 63, 79, 94, 999]),
            ("48", "ALL", vec![13, 48, 63, 79, 94, 999]),
        ] {
            assert_eq!(acting(&parse(disable, enable)), expected, "disable '{disable}', enable '{enable}'");
        }
    }

    #[test]
    fn only_all_switches_failing_probes_off() {
        assert!(!parse("all", "").probes_act && !parse("All", "79").probes_act);
        assert!(parse("", "").probes_act && parse("xids", "").probes_act && parse("79", "").probes_act);
    }

    #[test]
    fn an_enabled_harmless_xid_is_recoverable_and_a_fatal_one_stays_fatal() {
        let settings = parse("all", "13,79");
        assert_eq!(settings.verdict(Xid(13)), XidVerdict::Sick(XidClass::Recoverable));
        assert_eq!(settings.verdict(Xid(79)), XidVerdict::Sick(XidClass::Fatal));
        assert_eq!(settings.verdict(Xid(48)), XidVerdict::SwitchedOff);
        assert_eq!(settings.verdict(Xid(94)), XidVerdict::Harmless(XidClass::Application));
    }

    #[test]
    fn what_is_no_xid_is_passed_over_and_told() {
        let mut remarks = Vec::new();
        let settings = HealthSettings::parse("79, xid48,0", "-1", &mut remarks);
        assert_eq!(acting(&settings), [48, 999]);
        assert_eq!(remarks.len(), 3);
        assert!(remarks[0].starts_with("DP_DISABLE_HEALTHCHECKS: 'xid48' is passed over"), "{}", remarks[0]);
        assert!(remarks[2].starts_with("DP_ENABLE_HEALTHCHECKS: '-1'"), "{}", remarks[2]);
    }
}
