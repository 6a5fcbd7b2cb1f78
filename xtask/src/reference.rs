//! The reference: pages that tests hold to the code, and write anew where they are asked to.

use crate::run::{cargo, run};
use anyhow::Result;

/// Whose tests hold a page.
const PACKAGES: [&str; 7] = [
    "carve-slice-policy",
    "carve-slicing",
    "carve-node-agent",
    "carve-controller",
    "carve-dashboard",
    "carve-cli",
    "carve-cluster-tests",
];

/// Writes every page of docs/reference that is made of code.
pub(crate) fn reference() -> Result<()> {
    let mut command = cargo();
    command.arg("test").args(PACKAGES.iter().flat_map(|package| ["-p", package]));
    command.args(["--lib", "--test", "reference", "--test", "chart_values"]);
    run(command.args(["--", "reference"]).env("UPDATE_REFERENCE", "1"))
}
