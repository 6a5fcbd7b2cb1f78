//! The rights of carve's accounts: granted by the chart, compared with every call that the suites record, and told on a page.

mod calls;
mod compare;
mod excuses;
mod page;
mod rules;

use crate::root;
use crate::run::read;
use anyhow::{Context, Result, bail};
use calls::Call;
use carve_lab::Lab;
use rules::{Right, Rule};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Accounts whose calls the chart's roles are to allow, by the names that programs give themselves.
const HELD: &[&str] = &["carve-agent", "carve-controller", "carve-leave"];
/// The command line, which acts with the rights of whoever types; the chart has a role for those who look at the dashboard.
const PEOPLE: &str = "carve";
/// Kubernetes' own program, with Kubernetes' own roles and a small one of the chart's.
const SCHEDULER: &str = "carve-scheduler";

/// Values that switch everything on that has rights.
const EVERYTHING: &[&str] =
    &["agent.mode=claims", "agent.migEvict=true", "scheduler.enabled=true", "dashboard.enabled=true"];

/// Where the last run's calls are, for whoever looks.
fn recorded() -> PathBuf {
    root().join("target/api-calls.txt")
}

/// What Helm renders with these values and otherwise the chart's own.
fn rendered(helm: &Path, settings: &[&str]) -> Result<Vec<Rule>> {
    let mut command = Command::new(helm);
    command.args(["template", "carve", "--namespace", "carve"]).arg(root().join("charts/carve"));
    for setting in settings {
        command.args(["--set", setting]);
    }
    rules::rules(&read(&mut command)?, PEOPLE)
}

fn rights(rules: &[Rule]) -> Vec<Right> {
    rules.iter().flat_map(|rule| rule.rights.clone()).collect()
}

/// What labs have recorded of every component, compared with the chart's roles. Only a run of all suites can tell what nobody uses.
pub(crate) fn check_labs(labs: &[&Lab], helm: &Path, all_suites: bool) -> Result<()> {
    check(helm, all_suites, |show| labs.iter().try_for_each(|lab| lab.records(&mut *show)))
}

/// The same of audit logs in files, of whatever cluster; of all suites, if they are of all suites.
pub(crate) fn check_files(files: &[&str], helm: &Path) -> Result<()> {
    check(helm, true, |show| {
        for file in files {
            let text = fs::read_to_string(file).with_context(|| (*file).to_owned())?;
            text.lines().for_each(&mut *show);
        }
        Ok(())
    })
}

fn check(
    helm: &Path,
    all_suites: bool,
    each_record: impl FnOnce(&mut dyn FnMut(&str)) -> Result<()>,
) -> Result<()> {
    let rights = rights(&rendered(helm, EVERYTHING)?);
    let components: Vec<&str> = HELD.iter().copied().chain([PEOPLE]).collect();
    let mut found: BTreeSet<Call> = BTreeSet::new();
    each_record(&mut |record| {
        let calls = calls::calls(record, &components, SCHEDULER);
        found.extend(calls.into_iter().map(|call| calls::generalised(call, &rights)));
    })?;
    let lines: String = found.iter().map(|call| format!("{call}\n")).collect();
    fs::write(recorded(), lines).with_context(|| recorded().display().to_string())?;
    let mut wrong = compare::not_granted(&rights, &found, HELD, excuses::NOT_GRANTED);
    if all_suites {
        wrong.extend(compare::left_over(&rights, &found, excuses::UNUSED));
    }
    if wrong.is_empty() {
        eprintln!("   {} kinds of calls, {} rights", found.len(), rights.len());
        return Ok(());
    }
    for line in &wrong {
        eprintln!("   {line}");
    }
    bail!(
        "{} differences between what the chart's roles grant and what the suites called ({}); change charts/carve/templates, or say why in \
         xtask/src/permissions/excuses.rs",
        wrong.len(),
        recorded().display()
    );
}

/// Values one at a time, and how the page writes those that bring rights; `without` is what takes away rights that are there as the chart comes.
const SWITCHES: &[(&str, &str)] = &[
    ("agent.mode=claims", "agent.mode: claims"),
    ("agent.migEvict=true", "agent.migEvict: true"),
    ("scheduler.enabled=true", "scheduler.enabled: true"),
    ("dashboard.enabled=true", "dashboard.enabled: true"),
    ("controller.karpenter=false", "controller.karpenter: true"),
    ("crds.install=false", "crds.install: true"),
];

const PAGE: &str = "docs/reference/permissions.md";

fn page_of(helm: &Path) -> Result<String> {
    let own = rights(&rendered(helm, &[])?);
    let switched = SWITCHES
        .iter()
        .map(|(setting, shown)| Ok(page::Switched { shown, rights: rights(&rendered(helm, &[*setting])?) }));
    let switched = switched.collect::<Result<Vec<_>>>()?;
    let unused: Vec<(String, &str)> = excuses::UNUSED.iter().map(|one| (one.to_string(), one.why)).collect();
    Ok(page::page(&rendered(helm, EVERYTHING)?, &own, &switched, &unused))
}

/// Writes the page anew.
pub(crate) fn write(helm: &Path) -> Result<()> {
    fs::write(root().join(PAGE), page_of(helm)?).with_context(|| PAGE.to_owned())
}

/// Manifests that grant the same to those who install by hand.
const EXAMPLES: &[&str] = &[
    "examples/agent/rbac.yaml",
    "examples/controller/rbac.yaml",
    "examples/controller/dashboard.yaml",
    "examples/controller/scheduler.yaml",
];

/// Whether the examples grant what the chart grants; the way off a cluster is walked by people there.
fn check_examples(helm: &Path) -> Result<()> {
    let texts =
        EXAMPLES.iter().map(|file| fs::read_to_string(root().join(file)).with_context(|| (*file).to_owned()));
    let texts = texts.collect::<Result<Vec<_>>>()?.join("\n---\n");
    let said = |rules: &[Rule]| -> String {
        let rights = rights(rules).into_iter().filter(|right| right.who != "carve-leave");
        rights.map(|right| format!("{right}\n")).collect::<BTreeSet<_>>().into_iter().collect()
    };
    let (chart, examples) = (said(&rendered(helm, EVERYTHING)?), said(&rules::rules(&texts, PEOPLE)?));
    if chart != examples {
        let differing = carve_test_support::lines_that_differ(&chart, &examples);
        bail!("{} grant something else than the chart (-):\n{differing}", EXAMPLES.join(", "));
    }
    Ok(())
}

/// Whether the page tells what the chart grants, and the examples grant the same.
pub(crate) fn check_written(helm: &Path) -> Result<()> {
    check_examples(helm)?;
    let there = fs::read_to_string(root().join(PAGE)).unwrap_or_default();
    let wanted = page_of(helm)?;
    if there != wanted {
        let differing = carve_test_support::lines_that_differ(&there, &wanted);
        bail!(
            "{PAGE} does not tell what the chart grants; 'cargo xtask permissions' writes it anew\n{differing}"
        );
    }
    Ok(())
}
