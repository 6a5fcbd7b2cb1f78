//! `carve explain pod`: why a pod waits, or where it landed, in words.

use crate::args::MachineArgs;
use crate::asked_of::{AskedOf, wait};
use crate::failure::{Failure, Outcome};
use crate::print;
use carve_controller::{Story, explain_pod, story};
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum ExplainVerb {
    /// Say why a pod waits, or where it landed
    Pod(ExplainPodArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ExplainPodArgs {
    /// Name of the pod, or NAMESPACE/NAME
    name: String,
    /// Its namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Namespace of carve's controller
    #[arg(long, env = "CARVE_NAMESPACE", default_value = "carve", value_name = "NAMESPACE")]
    controller_namespace: String,
    #[command(flatten)]
    asked: AskedOf,
}

/// Tells.
pub(crate) fn explain(machine: &MachineArgs, verb: &ExplainVerb) -> Outcome {
    let ExplainVerb::Pod(args) = verb;
    let (namespace, name) = match args.name.split_once('/') {
        Some((namespace, name)) => (Some(namespace.to_owned()), name),
        None => (args.namespace.clone(), args.name.as_str()),
    };
    let found = wait(async {
        let client = args.asked.client(machine).await?;
        let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let evidence = explain_pod(client, &namespace, name, &args.controller_namespace).await;
        let evidence = evidence.map_err(|error| Failure::of(&error))?;
        evidence.ok_or_else(|| Failure {
            hint: Some(format!(
                "carve get pods -n {namespace} lists those that there are; -n names another namespace"
            )),
            ..Failure::new(format!("there is no pod {namespace}/{name}"))
        })
    })?;
    print::out(&shown(&story(&found)))
}

/// The story as it is printed: what each line is about on the left, words on the right.
fn shown(story: &Story) -> String {
    let width = story.lines.iter().map(|line| line.about.len()).max().unwrap_or(0);
    let mut text = format!("{}\n", story.headline);
    if !story.lines.is_empty() {
        text.push('\n');
    }
    let mut before = "";
    for line in &story.lines {
        let about = if line.about == before { "" } else { line.about };
        text.push_str(&format!("  {about:width$}  {}\n", line.words));
        before = line.about;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::shown;
    use carve_controller::{Line, Story};

    #[test]
    fn lines_align_and_say_once_what_they_are_about() {
        let line = |about: &'static str, words: &str| Line { about, words: words.to_owned() };
        let story = Story {
            headline: "team/one waits for a node.".to_owned(),
            lines: vec![
                line("asks for", "a"),
                line("does not fit", "b"),
                line("does not fit", "c"),
                line("", "d"),
            ],
        };
        let told = "team/one waits for a node.\n\n  asks for      a\n  does not fit  b\n                c\n                d\n";
        assert_eq!(shown(&story), told);
    }
}
