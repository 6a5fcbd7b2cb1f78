//! The same thousands of documents through the Go packages and through this crate; the verdicts and values compared.
//!
//! Needs the oracle: `cd conformance/oracle && go build -o <path> . && CARVE_ORACLE=<path> cargo test --test oracle`.
//! `CARVE_ORACLE_CASES` sets the number of documents per test, `CARVE_ORACLE_SEED` where they begin.

mod ask;
mod documents;
mod mutate;

use ask::Oracle;
use carve_formats::{DevicePluginConfig, MigHooks, MigPartedConfig, Parsed, kubernetes_yaml};
use mutate::Mutator;

fn number_from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Runs `compare` on every seed document and then on mutated ones; it says what differs, if anything.
fn hunt(kind: &str, seeds: Vec<String>, mut compare: impl FnMut(&mut Oracle, &str) -> Option<String>) {
    let Some(mut oracle) = Oracle::start() else { return };
    let cases = number_from_env("CARVE_ORACLE_CASES", 3000);
    let mut mutator = Mutator::new(number_from_env("CARVE_ORACLE_SEED", 1), seeds.clone());
    let mut differences = Vec::new();
    let mut asked = 0;
    for text in seeds.into_iter().chain((0..cases).map(|_| mutator.next_document())) {
        asked += 1;
        if let Some(difference) = compare(&mut oracle, &text) {
            differences.push(format!("{difference}\n--- document {text:?}"));
        }
    }
    println!("{kind}: {asked} documents, {} differ", differences.len());
    let shown = differences.iter().take(12).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(differences.is_empty(), "{} of {asked} documents differ:\n{shown}", differences.len());
}

/// Go walks maps in random order: where two keys become one text, any of them may win. Asked often enough, it agrees.
fn agrees_at_last(oracle: &mut Oracle, text: &str, ours: &str) -> bool {
    (0..40).any(|_| readable(&oracle.ask("yaml", text).json) == ours)
}

/// Go writes the replacement for broken bytes as an escape, and the character itself as itself.
fn readable(json: &str) -> String {
    json.replace("\\ufffd", "\u{fffd}")
}

#[test]
fn yaml_is_read_as_kubernetes_reads_it() {
    hunt("yaml", documents::yaml(), |oracle, text| {
        let answer = oracle.ask("yaml", text);
        match (kubernetes_yaml::parse(text), answer.ok) {
            (Ok(node), true) => {
                let ours = node.to_json();
                let same = ours == readable(&answer.json) || agrees_at_last(oracle, text, &ours);
                (!same).then(|| format!("ours   {ours}\ntheirs {}", answer.json))
            }
            (Err(error), false) => {
                let ours = error.upstream.unwrap_or_default();
                // These print Go values, and the order of a Go map is random.
                let printed = ["unsupported map key", "invalid map key"].iter().any(|p| ours.contains(p));
                (!printed && ours != answer.error).then(|| format!("ours   {ours}\ntheirs {}", answer.error))
            }
            (Ok(node), false) => Some(format!("ours   accepts {}\ntheirs {}", node.to_json(), answer.error)),
            (Err(error), true) => Some(format!("ours   {error} at {}\ntheirs {}", error.at, answer.json)),
        }
    });
}

/// Compares the verdicts, and where both accept also what was read: their JSON must mean the same to us.
fn same_verdict<T: PartialEq + std::fmt::Debug>(
    ours: &Parsed<T>,
    theirs: &ask::Answer,
    read: impl Fn(&str) -> Option<T>,
) -> Option<String> {
    match (&ours.value, theirs.ok) {
        (Some(value), true) => {
            // A line separator in their JSON is a line break when it is read as YAML again.
            let unreadable = theirs.json.is_empty() || theirs.json.contains('\u{85}');
            let same = unreadable || read(&theirs.json).as_ref() == Some(value);
            (!same).then(|| format!("ours   {value:?}\ntheirs {}", theirs.json))
        }
        (None, false) => None,
        (Some(_), false) => Some(format!("ours   accepts\ntheirs {}", theirs.error)),
        (None, true) => Some(format!("ours   {:?}\ntheirs accepts {}", ours.errors().next(), theirs.json)),
    }
}

#[test]
fn mig_parted_configs_get_the_same_verdict() {
    hunt("mig-parted", documents::mig_parted(), |oracle, text| {
        let ours = MigPartedConfig::parse(text);
        let theirs = oracle.ask("mig-parted", text);
        same_verdict(&ours, &theirs, |json| {
            // An empty document stays unversioned there and can not be read back.
            let json = json.replace(r#"{"version":""}"#, r#"{"version":"v1"}"#);
            // A config without MIG devices writes null, which is refused where MIG is enabled and is the same here.
            MigPartedConfig::parse(&json).value
        })
    });
}

#[test]
fn mig_hooks_get_the_same_verdict() {
    hunt("mig-hooks", documents::mig_hooks(), |oracle, text| {
        let ours = MigHooks::parse(text);
        // Known and left: an infinite argument becomes the text "+Inf" there.
        if ours.errors().any(|error| error.message.contains("unsupported value")) {
            return None;
        }
        let theirs = oracle.ask("mig-hooks", text);
        same_verdict(&ours, &theirs, |json| MigHooks::parse(json).value)
    });
}

#[test]
fn device_plugin_configs_get_the_same_verdict() {
    hunt("device-plugin", documents::device_plugin(), |oracle, text| {
        let ours = DevicePluginConfig::parse(text);
        let theirs = oracle.ask("device-plugin", text);
        same_verdict(&ours, &theirs, |json| {
            // What is absent there is an empty object, which is refused when read again.
            let json = json.replace(r#""timeSlicing":{}"#, "");
            let mut read = DevicePluginConfig::parse(&json.replace("{,", "{")).value?;
            let mut ours = ours.value.clone()?;
            forget_what_old_versions_lose(&mut ours);
            forget_what_old_versions_lose(&mut read);
            (ours == read).then(|| DevicePluginConfig::parse(text).value).flatten()
        })
    });
}

/// The oracle's version has no allocation policy, knows no unset `failRequestsGreaterThanOne`, and fills in renames.
fn forget_what_old_versions_lose(config: &mut DevicePluginConfig) {
    if let Some(plugin) = &mut config.flags.plugin {
        plugin.shared_devices_allocation_policy = None;
        // An empty list that nobody wrote is printed as null.
        plugin.device_list_strategy = plugin.device_list_strategy.take().filter(|list| !list.is_empty());
    }
    for replicated in [&mut config.sharing.time_slicing, &mut config.sharing.mps].into_iter().flatten() {
        replicated.fail_requests_greater_than_one = None;
        for resource in &mut replicated.resources {
            if replicated.rename_by_default && resource.rename.is_none() {
                resource.rename = Some(resource.name.shared());
            }
        }
    }
}
