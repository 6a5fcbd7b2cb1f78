//! `carve policy`: SlicePolicies of the ConfigMaps that NVIDIA's programs read, and those ConfigMaps of SlicePolicies.

use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::{input, print};
use carve_formats::{DevicePluginConfig, Format, MigPartedConfig, Parsed, kubernetes_yaml, lint};
use carve_slice_policy::convert::{
    Back, Files, MIG_LABEL, SHARING_LABEL, device_plugin_configs, mig_parted_configs, policies,
};
use carve_slice_policy::{SlicePolicy, SlicePolicySpec};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyVerb {
    /// Print SlicePolicies that do what configurations of NVIDIA's device plugin and of mig-parted do; what has no words in a policy goes to standard error
    From(FromArgs),
    /// Print SlicePolicies as the ConfigMap that NVIDIA's device plugin or MIG manager reads
    To(ToArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FromArgs {
    /// ConfigMaps, or configuration files, which are then called like the file; - reads standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The device-plugin configuration of nodes without the label nvidia.com/device-plugin.config
    #[arg(long, value_name = "NAME")]
    default_sharing: Option<String>,
    /// The mig-parted config of nodes without the label nvidia.com/mig.config
    #[arg(long, value_name = "NAME")]
    default_mig: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Reader {
    /// NVIDIA's device plugin
    DevicePlugin,
    /// NVIDIA's MIG manager
    MigParted,
}

#[derive(Debug, Args)]
pub(crate) struct ToArgs {
    /// Who is to read it
    #[arg(value_enum)]
    reader: Reader,
    /// File with SlicePolicies; - reads standard input
    #[arg(value_name = "POLICY")]
    file: PathBuf,
    /// What the ConfigMap is called
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Answers a verb of `carve policy`.
pub(crate) fn policy(verb: &PolicyVerb) -> Outcome {
    match verb {
        PolicyVerb::From(args) => from(args),
        PolicyVerb::To(args) => to(args),
    }
}

fn unreadable(file: &Path, what: impl std::fmt::Display) -> Failure {
    Failure { code: UNREADABLE, ..Failure::new(format!("{}: {what}", input::shown(file))) }
}

/// The documents of a file, as JSON.
fn documents(file: &Path) -> Result<(String, Vec<Value>), Failure> {
    let text = input::read(file)?;
    let (nodes, error) = kubernetes_yaml::parse_stream(&text);
    if let Some(error) = error {
        return Err(unreadable(file, error));
    }
    let documents = nodes.iter().filter_map(|node| serde_json::from_str(&node.to_json()).ok()).collect();
    Ok((text, documents))
}

fn from(args: &FromArgs) -> Outcome {
    let mut files = Files::default();
    files.sharing.default.clone_from(&args.default_sharing);
    files.mig.default.clone_from(&args.default_mig);
    for file in &args.files {
        let (text, documents) = documents(file)?;
        let maps: Vec<&Value> = documents.iter().filter(|document| document["kind"] == "ConfigMap").collect();
        if maps.is_empty() {
            let stem = file
                .file_stem()
                .map_or_else(|| "config".to_owned(), |stem| stem.to_string_lossy().into_owned());
            let name = if stem == "-" { "config".to_owned() } else { stem };
            add(&mut files, file, &name, &text)?;
        }
        for (key, text) in maps.iter().flat_map(|map| map["data"].as_object().into_iter().flatten()) {
            add(&mut files, file, key, text.as_str().unwrap_or_default())?;
        }
    }
    let converted = policies(&files).map_err(|error| Failure::of(&error))?;
    if converted.policies.is_empty() {
        let failure = Failure::new("these files divide nothing, so there is nothing for a policy to say");
        return Err(failure.hint("--default-sharing and --default-mig name what nodes without a label have"));
    }
    for policy in &converted.policies {
        print::out("---\n")?;
        print::yaml(&lean(policy)?)?;
    }
    remark(&converted.left_out);
    Ok(())
}

/// A policy without what stands there anyway.
fn lean(policy: &SlicePolicy) -> Result<Value, Failure> {
    let mut object = serde_json::to_value(policy).map_err(|error| Failure::of(&error))?;
    let usual = serde_json::to_value(SlicePolicySpec::default()).map_err(|error| Failure::of(&error))?;
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.retain(|field, value| usual.get(field) != Some(value));
        for (part, field) in [("sharing", "renamed"), ("mig", "switchModeOn")] {
            let part = spec.get_mut(part).and_then(Value::as_object_mut);
            part.into_iter()
                .for_each(|part| part.retain(|name, value| name != field || *value != Value::Bool(false)));
        }
    }
    Ok(object)
}

/// Adds a file with a name to those of its kind.
fn add(files: &mut Files, file: &Path, name: &str, text: &str) -> Outcome {
    let formats: Vec<Format> = lint(text).documents.iter().filter_map(|document| document.format).collect();
    match formats.as_slice() {
        [Format::MigPartedConfig] => {
            let config = good(file, name, MigPartedConfig::parse(text))?;
            files.mig.configs.extend(config.configs);
        }
        [Format::DevicePluginConfig] => {
            let config = good(file, name, DevicePluginConfig::parse(text))?;
            files.sharing.configs.insert(name.to_owned(), config);
        }
        _ => {
            let failure = unreadable(
                file,
                format!("{name} is neither a configuration of the device plugin nor one of mig-parted"),
            );
            return Err(failure.hint("'carve validate' says what a file is"));
        }
    }
    Ok(())
}

fn good<T>(file: &Path, name: &str, parsed: Parsed<T>) -> Result<T, Failure> {
    let why: Vec<String> = parsed.diagnostics.iter().map(ToString::to_string).collect();
    parsed.value.ok_or_else(|| unreadable(file, format!("{name}: {}", why.join("; "))))
}

fn to(args: &ToArgs) -> Outcome {
    let (_, documents) = documents(&args.file)?;
    let mut all = Vec::new();
    let listed = documents
        .iter()
        .flat_map(|document| document["items"].as_array().cloned().unwrap_or_else(|| vec![document.clone()]));
    for document in listed.filter(|document| document["kind"] == "SlicePolicy") {
        let name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let spec: SlicePolicySpec = serde_json::from_value(document["spec"].clone())
            .map_err(|error| unreadable(&args.file, format!("SlicePolicy '{name}': {error}")))?;
        all.push((name, spec));
    }
    if all.is_empty() {
        return Err(unreadable(&args.file, "there is no SlicePolicy in it"));
    }
    match args.reader {
        Reader::DevicePlugin => {
            let back = device_plugin_configs(&all);
            let data =
                back.named.configs.iter().map(|(name, config)| (name.clone(), config.to_yaml())).collect();
            print_map(args.name.as_deref().unwrap_or("device-plugin-config"), data, (&back, SHARING_LABEL))
        }
        Reader::MigParted => {
            let back = mig_parted_configs(&all);
            let text = MigPartedConfig { configs: back.named.configs.clone() }.to_yaml();
            let data = BTreeMap::from([("config.yaml".to_owned(), text)]);
            print_map(args.name.as_deref().unwrap_or("mig-parted-config"), data, (&back, MIG_LABEL))
        }
    }
}

fn print_map<T>(name: &str, data: BTreeMap<String, String>, (back, label): (&Back<T>, &str)) -> Outcome {
    if back.named.configs.is_empty() {
        remark(&back.left_out);
        return Err(Failure::new("these policies say nothing that this program reads"));
    }
    print::yaml(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}))?;
    remark(&back.left_out);
    if let Some(default) = &back.named.default {
        eprintln!("carve: '{default}' is for nodes without the label {label}: name it as the default");
    }
    Ok(())
}

fn remark(left_out: &[String]) {
    for line in left_out {
        eprintln!("carve: left out: {line}");
    }
}
