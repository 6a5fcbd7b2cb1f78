//! `carve karpenter`: what autoscalers are told of the machines of a policy, without a cluster.

use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::{input, print};
use carve_formats::kubernetes_yaml;
use carve_karpenter::{NodeGroup, Pool, Refusal, compile, node_groups};
use carve_slice_policy::{ProvisionMode, SlicePolicySpec, in_words_of_policy};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum KarpenterVerb {
    /// Print the NodeOverlays and the NodePool that the controller makes of a SlicePolicy, in the order in which they are applied
    Render(PolicyArgs),
    /// Print tags of auto scaling groups, which tell the cluster autoscaler the same
    Tags(PolicyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// File with SlicePolicies; - reads standard input
    #[arg(value_name = "POLICY")]
    file: PathBuf,
}

/// A policy that wants machines.
struct Wanted {
    name: String,
    mode: ProvisionMode,
    pool: Pool,
}

/// Answers a verb of `carve karpenter`.
pub(crate) fn karpenter(verb: &KarpenterVerb) -> Outcome {
    match verb {
        KarpenterVerb::Render(args) => read(&args.file)?.iter().try_for_each(render),
        KarpenterVerb::Tags(args) => read(&args.file)?.iter().try_for_each(tags),
    }
}

fn refused(name: &str, refusal: Refusal) -> Failure {
    let Refusal { field, reason, remedy } = in_words_of_policy(refusal);
    Failure::new(format!("SlicePolicy '{name}': {field}: {reason}")).hint(remedy)
}

fn read(file: &Path) -> Result<Vec<Wanted>, Failure> {
    let shown = input::shown(file);
    let unreadable = |what: String| Failure { code: UNREADABLE, ..Failure::new(format!("{shown}: {what}")) };
    let (nodes, error) = kubernetes_yaml::parse_stream(&input::read(file)?);
    if let Some(error) = error {
        return Err(unreadable(error.to_string()));
    }
    let documents = nodes.iter().filter_map(|node| serde_json::from_str::<Value>(&node.to_json()).ok());
    let mut wanted = Vec::new();
    for document in documents.filter(|document| document["kind"] == "SlicePolicy") {
        let name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let spec: SlicePolicySpec = serde_json::from_value(document["spec"].clone())
            .map_err(|error| unreadable(format!("SlicePolicy '{name}': {error}")))?;
        let (Some(pool), Some(provision)) = (spec.pool(&name), &spec.provision) else { continue };
        let pool = pool.map_err(|refusal| refused(&name, refusal))?;
        wanted.push(Wanted { name, mode: provision.mode, pool });
    }
    if wanted.is_empty() {
        let failure = unreadable("no SlicePolicy in it wants machines".to_owned());
        return Err(failure.hint("machines are asked for in spec.provision of a SlicePolicy"));
    }
    Ok(wanted)
}

fn render(wanted: &Wanted) -> Outcome {
    if wanted.mode == ProvisionMode::TagsOnly {
        let failure =
            Failure::new(format!("SlicePolicy '{}': with mode TagsOnly nothing is made", wanted.name));
        return Err(failure.hint("'carve karpenter tags' prints what groups of machines need"));
    }
    let compiled = compile(&wanted.pool).map_err(|refusal| refused(&wanted.name, refusal))?;
    for document in compiled.documents() {
        print::out("---\n")?;
        print::yaml(document)?;
    }
    Ok(())
}

/// `KEY=VALUE` lines for each kind of machine, whose group of machines is to have them.
fn tags(wanted: &Wanted) -> Outcome {
    let groups = node_groups(&wanted.pool).map_err(|refusal| refused(&wanted.name, refusal))?;
    let text = |group: &NodeGroup| {
        let gpus = if group.gpus == 1 { "1 GPU".to_owned() } else { format!("{} GPUs", group.gpus) };
        let types =
            if group.types.is_empty() { "no type is known".to_owned() } else { group.types.join(", ") };
        let tags: String = group.tags.iter().map(|(key, value)| format!("  {key}={value}\n")).collect();
        format!("{}: {}, {gpus}: {types}\n{tags}", wanted.name, group.model)
    };
    print::out(&groups.iter().map(text).collect::<String>())
}
