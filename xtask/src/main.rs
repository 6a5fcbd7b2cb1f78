//! The project's own tasks: `cargo xtask tidy | test | ci | programs | properties | suites | suite-runs | incumbents | cuda-symbols | limiter | dashboards | page | api | book | reference | deny | dist | lab | fuzz`.

mod alone;
mod api;
mod book;
mod cuda_symbols;
mod dashboards;
mod deny;
mod dist;
mod fuzz;
mod incumbents;
mod lab;
mod limiter;
mod links;
mod page;
mod passed;
mod permissions;
mod previous;
mod programs;
mod properties;
mod queue;
mod reference;
mod run;
mod suite_runs;
mod suites;
mod test;
mod tidy;
mod times;
mod tools;

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK

  tidy         check the rules of the house that no compiler checks
  test         everything: tidy, format, lints, CUDA's functions, NVIDIA's programs, suites on a real Kubernetes, tests, dependencies, fuzz targets (bounded), the page
  programs     the test programs that need no cluster alone, several at once
  properties [MINUTES]
               what has properties, with other cases each time, until one fails or the time is over (10 minutes unless told)
  suites [--times N] [NAME…]
               the suites on a real Kubernetes alone, in up to three labs side by side; more than once, and each run is written into docs/suite-runs.md
  suite-runs   write into docs/suite-runs.md what this machine remembers of earlier runs of all suites, those of `test` among them
  ci           the same with CI=true, where nothing may be skipped
  incumbents   build NVIDIA's programs, Karpenter, Helm, and the oracle made of NVIDIA's packages, into the cache
  previous     build the release before this one into the cache, and say where it is
  cuda-symbols compare the table of CUDA functions with NVIDIA's headers, and name what either lacks
  limiter      build the shared object that limits processes, and say where it is; and one for tests that end processes inside it
  dashboards   write monitoring/grafana anew
  page         the dashboard's page in a real browser, in front of carve up
  api          the dashboard's API, asked with everything that its OpenAPI document allows and forbids, in front of carve up
  permissions [RECORDS…] write docs/reference/permissions.md anew, from the chart's roles; or compare with them what API servers recorded of all suites
  book         the pages of docs as a book, in target/book
  reference    write docs/reference anew, as far as it is made of code
  deny         licences, sources and known vulnerabilities of the crates behind carve, by deny.toml
  dist         the files of a release, in target/dist: programs, images, chart, what is in them, checksums; --only x86_64 for one processor,
               --quick for the programs of tests, in target/dist-quick
  lab VERB     a real Kubernetes: up [--kubernetes 1.36|1.35] [--nodes N] [--gpus MACHINE] [--feature-gates A=true,…], fleet N, down, status, exec CMD…, shell, kubeconfig, logs [COMPONENT],
               figures (what the agent costs beside NVIDIA's programs), soak [--minutes N] [--seed N] (what a long run leaves, as docs/soak.md)
  fuzz [RUNS]  run every fuzz target for a number of cases (10000 unless told)
";

fn main() -> ExitCode {
    match task(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn task(arguments: Vec<String>) -> Result<()> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["tidy"] => tidy::tidy(),
        ["test"] => test::test(),
        ["ci"] => test::ci(),
        ["programs"] => test::programs(),
        ["properties"] => test::properties(10),
        ["properties", minutes] => test::properties(minutes.parse()?),
        ["suites", ref names @ ..] => test::suites(names),
        ["suite-runs"] => suite_runs::write_down(),
        ["incumbents"] => incumbents::build().map(drop),
        ["previous"] => {
            previous::for_tests().map(|folder| folder.iter().for_each(|path| println!("{}", path.display())))
        }
        ["cuda-symbols"] => cuda_symbols::check(),
        ["limiter"] => limiter::build_both().map(|path| println!("{}", path.display())),
        ["dashboards"] => dashboards::write(),
        ["page"] => page::page(),
        ["api"] => api::api(),
        ["book"] => book::book(),
        ["reference"] => reference::reference(),
        ["permissions"] => permissions::write(&incumbents::build()?.join("helm")),
        ["permissions", ref records @ ..] => {
            permissions::check_files(records, &incumbents::build()?.join("helm"))
        }
        ["deny"] => deny::deny(deny::Words::All),
        ["dist", ref words @ ..] => dist::dist(words),
        ["lab", ref words @ ..] => lab::lab(words),
        ["lab-services", folder] => carve_lab::services(Path::new(folder)),
        ["lab-node", folder, number] => carve_lab::inside_node(Path::new(folder), number.parse()?),
        ["lab-fleet", folder, nodes] => carve_lab::fleet(Path::new(folder), nodes.parse()?),
        ["lab-inside", folder] => carve_lab::inside(Path::new(folder)),
        ["fuzz"] => fuzz::fuzz(fuzz::RUNS),
        ["fuzz", runs] => fuzz::fuzz(runs.parse()?),
        _ => {
            eprint!("{USAGE}");
            bail!("no such task: {}", arguments.join(" "));
        }
    }
}

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Where things go that are built once and kept outside the repository.
fn cache() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    base.unwrap_or_else(std::env::temp_dir).join("carve")
}
