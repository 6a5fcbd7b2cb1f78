//! Objects, by kubectl's verbs and in its habits: get, apply, scale, label, delete.

mod get;

use crate::args::MachineArgs;
use crate::asked_of::{AskedOf, wait};
use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::{input, print};
use carve_object_verbs::{VerbError, apply, delete, documents, find, find_named, label, scale};
use clap::Args;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub(crate) use get::{GetArgs, get};

impl From<VerbError> for Failure {
    fn from(error: VerbError) -> Self {
        let failure = Failure::new(&error.message);
        match error.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// Where.
#[derive(Debug, Clone, Args)]
pub(crate) struct InNamespace {
    /// Namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

impl InNamespace {
    fn of(&self, client: &kube::Client) -> String {
        self.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned())
    }
}

#[derive(Debug, Args)]
pub(crate) struct ApplyObjectsArgs {
    /// Manifests, YAML or JSON; - reads standard input. All of them are applied, or none
    #[arg(short = 'f', long = "filename", required = true, num_args = 1.., value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only say what would become of them
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: InNamespace,
    #[command(flatten)]
    asked: AskedOf,
}

/// Applies manifests.
pub(crate) fn apply_objects(machine: &MachineArgs, args: &ApplyObjectsArgs) -> Outcome {
    let mut all = Vec::new();
    for file in &args.files {
        let shown = input::shown(file);
        let found = documents(&input::read(file)?).map_err(|error| Failure {
            code: UNREADABLE,
            message: format!("{shown}: {}", error.message),
            ..Failure::from(error)
        })?;
        all.extend(found);
    }
    let applied = wait(async {
        let client = args.asked.client(machine).await?;
        let namespace = args.place.of(&client);
        Ok(apply(&client, &all, &namespace, args.dry_run).await?)
    })?;
    let after = if args.dry_run { " (dry run)" } else { "" };
    let lines: Vec<String> =
        applied.iter().map(|one| format!("{} {}{after}\n", one.object, one.outcome.word())).collect();
    print::out(&lines.concat())
}

#[derive(Debug, Args)]
pub(crate) struct ScaleArgs {
    /// KIND NAME, or KIND/NAME
    #[arg(required = true, num_args = 1..=2, value_name = "KIND/NAME")]
    what: Vec<String>,
    /// How many
    #[arg(long, value_name = "NUMBER")]
    replicas: u32,
    #[command(flatten)]
    place: InNamespace,
    #[command(flatten)]
    asked: AskedOf,
}

/// `KIND NAME` or `KIND/NAME`.
fn kind_and_name(words: &[String]) -> Result<(&str, &str), Failure> {
    let wrong = || Failure {
        code: UNREADABLE,
        ..Failure::new("which object? write KIND/NAME, as in deployment/web")
    };
    match words {
        [one] => {
            one.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty()).ok_or_else(wrong)
        }
        [kind, name] => Ok((kind, name)),
        _ => Err(wrong()),
    }
}

/// Makes it so many.
pub(crate) fn scale_object(machine: &MachineArgs, args: &ScaleArgs) -> Outcome {
    let (kind, name) = kind_and_name(&args.what)?;
    let title = wait(async {
        let client = args.asked.client(machine).await?;
        let found = find_named(&client, kind).await?;
        scale(&client, &found, &args.place.of(&client), name, args.replicas).await?;
        Ok(found.title())
    })?;
    print::out(&format!("{title}/{name} scaled\n"))
}

#[derive(Debug, Args)]
pub(crate) struct LabelArgs {
    /// KIND NAME, or KIND/NAME, then LABEL=VALUE to set and LABEL- to take away
    #[arg(required = true, num_args = 2.., value_name = "WORD")]
    words: Vec<String>,
    /// As kubectl has it; labels are always overwritten
    #[arg(long, hide = true)]
    overwrite: bool,
    #[command(flatten)]
    place: InNamespace,
    #[command(flatten)]
    asked: AskedOf,
}

/// Sets labels.
pub(crate) fn label_object(machine: &MachineArgs, args: &LabelArgs) -> Outcome {
    let count = if args.words[0].contains('/') { 1 } else { 2 };
    let (what, changes) = args.words.split_at(count.min(args.words.len()));
    let (kind, name) = kind_and_name(what)?;
    let mut labels = BTreeMap::new();
    for change in changes {
        match (change.split_once('='), change.strip_suffix('-')) {
            (Some((key, value)), _) if !key.is_empty() => {
                labels.insert(key.to_owned(), Some(value.to_owned()))
            }
            (None, Some(key)) if !key.is_empty() => labels.insert(key.to_owned(), None),
            _ => {
                let words = format!("'{change}' is neither LABEL=VALUE nor LABEL-");
                return Err(Failure { code: UNREADABLE, ..Failure::new(words) });
            }
        };
    }
    if labels.is_empty() {
        return Err(Failure { code: UNREADABLE, ..Failure::new("which label? write LABEL=VALUE or LABEL-") });
    }
    let title = wait(async {
        let client = args.asked.client(machine).await?;
        let found = find_named(&client, kind).await?;
        label(&client, &found, &args.place.of(&client), name, &labels).await?;
        Ok(found.title())
    })?;
    print::out(&format!("{title}/{name} labeled\n"))
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// KIND NAME…, or KIND/NAME
    #[arg(num_args = 1.., value_name = "KIND/NAME", required_unless_present = "files", conflicts_with = "files")]
    what: Vec<String>,
    /// Delete what manifests name; - reads standard input
    #[arg(short = 'f', long = "filename", num_args = 1.., value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Do not complain about what is not there
    #[arg(long)]
    ignore_not_found: bool,
    /// Seconds that pods have to end
    #[arg(long, value_name = "SECONDS")]
    grace_period: Option<u32>,
    #[command(flatten)]
    place: InNamespace,
    #[command(flatten)]
    asked: AskedOf,
}

/// Deletes objects.
pub(crate) fn delete_objects(machine: &MachineArgs, args: &DeleteArgs) -> Outcome {
    let mut named: Vec<(String, String)> = Vec::new();
    match &args.what[..] {
        [] => {}
        [one] => {
            let (kind, name) = kind_and_name(std::slice::from_ref(one))?;
            named.push((kind.to_owned(), name.to_owned()));
        }
        [kind, names @ ..] => named.extend(names.iter().map(|name| (kind.clone(), name.clone()))),
    }
    let mut written = Vec::new();
    for file in &args.files {
        written.extend(documents(&input::read(file)?).map_err(Failure::from)?);
    }
    wait(async {
        let client = args.asked.client(machine).await?;
        let namespace = args.place.of(&client);
        let mut all = Vec::new();
        for (kind, name) in named {
            all.push((find_named(&client, &kind).await?, namespace.clone(), name));
        }
        for document in &written {
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let (version, kind) = (text(&document.object["apiVersion"]), text(&document.object["kind"]));
            let inside =
                Some(text(&document.object["metadata"]["namespace"])).filter(|written| !written.is_empty());
            let name = text(&document.object["metadata"]["name"]);
            all.push((
                find(&client, &version, &kind).await?,
                inside.unwrap_or_else(|| namespace.clone()),
                name,
            ));
        }
        for (found, namespace, name) in all {
            match delete(&client, &found, &namespace, &name, args.grace_period).await {
                Ok(()) => print::out(&format!("{} \"{name}\" deleted\n", found.title()))?,
                Err(error) if error.code == 404 && args.ignore_not_found => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    })
}
