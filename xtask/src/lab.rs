//! `cargo xtask lab`: a real Kubernetes on this machine, started and ended.

use crate::root;
use crate::run::{cargo, forget_ourselves, read, run};
use anyhow::{Context, Result, bail};
use carve_lab::{Image, Lab, Places, Programs, Release, SimulatedGpus, Status, Wanted};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Answers a verb.
pub(crate) fn lab(words: &[&str]) -> Result<()> {
    let lab = Lab::new(Places::usual());
    // From inside, a lab that runs looks like one that is gone: starting it would tear it down.
    if std::env::var_os(WITHIN).is_some() {
        bail!(
            "this shell is in the lab already: kubectl, helm and carve are at hand; leave it with 'exit' before anything else is done with the lab"
        );
    }
    match words {
        ["up", options @ ..] => up(&lab, options),
        ["fleet", nodes] => lab.start_fleet(nodes.parse()?),
        ["down"] => down(&lab),
        ["status"] => {
            match lab.status() {
                Status::Down => println!("down"),
                Status::Starting => println!("starting"),
                Status::Ready(text) => println!("up: {text}"),
            }
            Ok(())
        }
        ["exec", command @ ..] if !command.is_empty() => at_hand(&lab, command),
        ["shell"] => at_hand(&lab, &["bash", "--norc"]),
        ["kubeconfig"] => {
            println!("{}", lab.kubeconfig().display());
            Ok(())
        }
        ["figures"] => figures(&lab),
        ["dra-figures"] => dra_figures(&lab),
        ["dra-packing", seeds @ ..] => dra_packing(&lab, seeds),
        ["soak", words @ ..] => soak(&lab, words),
        ["logs"] => {
            lab.logs().iter().for_each(|name| println!("{name}"));
            Ok(())
        }
        ["logs", component] => {
            print!("{}", lab.log(component)?);
            Ok(())
        }
        _ => bail!(
            "usage: cargo xtask lab up [--kubernetes 1.36|1.35] [--nodes N] [--gpus MACHINE] [--feature-gates A=true,…] | fleet N | down | status | exec CMD… | shell | kubeconfig | logs [COMPONENT] | figures | dra-figures | dra-packing [SEED…] | soak [--minutes N] [--seed N]"
        ),
    }
}

/// Set for whatever runs inside a lab.
const WITHIN: &str = "CARVE_WITHIN_LAB";

/// Images for the lab, of carve as it is now.
fn images(lab: &Lab) -> Result<Vec<PathBuf>> {
    run(cargo().args(["build", "--package", "carve"]))?;
    crate::limiter::build()?;
    images_of_built(lab)
}

/// Images for the lab: carve itself, as it was built last, and a shell to look around with.
pub(crate) fn images_of_built(lab: &Lab) -> Result<Vec<PathBuf>> {
    let folder = lab.cache().join("images");
    fs::create_dir_all(&folder)?;
    let program = root().join("target/debug/carve");
    // As the shipped image has it.
    let limiter = fs::read(crate::limiter::built()).context("the limiter's library was not built")?;
    let carve = Image::new("localhost/carve:test")
        .program(&program, "/carve")?
        .file("/usr/lib/carve/libcarve_limiter.so", limiter, true)
        .env("HOME", "/tmp")
        .entrypoint(["/carve"]);
    let (mut probe, mut looker) = (Image::new("localhost/probe:1"), Image::new("localhost/looker:test"));
    for program in ["/bin/sh", "/bin/ls", "/bin/cat", "/bin/sleep", "/usr/bin/env"] {
        probe = probe.program(Path::new(program), program)?;
        looker = looker.program(Path::new(program), program)?;
    }
    let (probe, looker) = (probe.entrypoint(["/bin/sh"]), looker.program(&program, "/carve")?);
    let mut written = Vec::new();
    for (image, name) in [(carve, "carve.tar"), (probe, "probe.tar"), (looker, "looker.tar")] {
        image.write(&folder.join(name))?;
        written.push(folder.join(name));
    }
    Ok(written)
}

/// Does something in the lab that is up, or in one of its own.
fn within(lab: &Lab, act: impl FnOnce() -> Result<()>) -> Result<()> {
    let own = lab.status() == Status::Down;
    if own {
        lab.up(&Wanted::usual(1), &images(lab)?)?;
    }
    let done = act();
    if own {
        lab.down()?;
    }
    done
}

/// A release build of the agent, a debug build of the simulated driver, and a measuring program that is told where they are.
fn measuring(example: &str) -> Result<Command> {
    run(cargo().args(["build", "--release", "--quiet", "--package", "carve"]))?;
    run(cargo().args(["build", "--quiet", "--package", "carve-nvml-sim", "--package", "carve-cuda-sim"]))?;
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "carve-cluster-tests", "--example", example]);
    command.env("CARVE_SIMULATED_DRIVER", root().join("target/debug/libcarve_nvml_sim.so"));
    command.env("CARVE_RELEASE_BINARY", root().join("target/release/carve"));
    Ok(command)
}

/// What the agent costs on a node beside NVIDIA's programs.
fn figures(lab: &Lab) -> Result<()> {
    let mut command = measuring("figures")?;
    command.env("CARVE_INCUMBENTS", crate::incumbents::build()?);
    within(lab, || run(&mut command))
}

/// What claims cost in time.
fn dra_figures(lab: &Lab) -> Result<()> {
    let mut command = measuring("dra_figures")?;
    run(cargo().args(["build", "--quiet", "--package", "carve-cluster-tests", "--bin", "claim_rounds"]))?;
    command.env("CARVE_CLAIM_ROUNDS", root().join("target/debug/claim_rounds"));
    within(lab, || run(&mut command))
}

/// How many large MIG claims find no room in our order of devices and in NVIDIA's.
fn dra_packing(lab: &Lab, seeds: &[&str]) -> Result<()> {
    let example = ["--quiet", "--package", "carve-cluster-tests", "--example", "dra_packing"];
    run(cargo().arg("build").args(example))?;
    within(lab, || run(cargo().arg("run").args(example).arg("--").args(seeds)))
}

/// Pods, claims, MIG changes and faults at random from a seed, and the page about what was left of them.
fn soak(lab: &Lab, words: &[&str]) -> Result<()> {
    let example = ["--quiet", "--package", "carve-cluster-tests", "--example", "soak"];
    let parts = ["carve", "carve-nvml-sim", "carve-cuda-sim"].map(|part| ["--package", part]).concat();
    run(cargo().args(["build", "--quiet"]).args(parts))?;
    run(cargo().arg("build").args(example))?;
    let limiter = crate::limiter::build()?;
    if lab.status() != Status::Down {
        bail!(
            "the soak wants a lab of three nodes for itself; 'cargo xtask lab down' ends the one that is up"
        );
    }
    lab.up(&Wanted::usual(3), &images(lab)?)?;
    let page = root().join("docs/soak.md");
    let mut command = cargo();
    command.arg("run").args(example).arg("--").args(words).arg("--page").arg(page);
    command.env("CARVE_SIMULATED_DRIVER", root().join("target/debug/libcarve_nvml_sim.so"));
    command.env("CARVE_LIMITER_LIBRARY", limiter);
    let done = run(&mut command);
    lab.down()?;
    done
}

fn up(lab: &Lab, options: &[&str]) -> Result<()> {
    let (mut wanted, mut gpus) = (Wanted::usual(1), None);
    for option in options.chunks(2) {
        match option {
            ["--kubernetes", name] => wanted.release = Release::named(name)?,
            ["--nodes", number] => wanted.nodes = number.parse()?,
            ["--feature-gates", gates] => wanted.feature_gates = Some((*gates).to_owned()),
            ["--gpus", machine] => gpus = Some(*machine),
            other => {
                bail!(
                    "up takes --kubernetes RELEASE, --nodes N, --gpus MACHINE and --feature-gates A=true,…, not {}",
                    other.join(" ")
                )
            }
        }
    }
    // Told before anything is built.
    match (lab.status(), gpus) {
        (Status::Down, _) => {}
        // It was interrupted after the start and before the GPUs.
        (Status::Ready(_), Some(machine)) if !values_of(lab).exists() => {
            build_for_gpus()?;
            return simulate_gpus(lab, machine);
        }
        (Status::Starting, _) => {
            bail!(
                "this lab is starting; 'cargo xtask lab status' says when it is up, 'cargo xtask lab down' ends it"
            )
        }
        (Status::Ready(_), _) => bail!("this lab is already there; 'cargo xtask lab down' ends it"),
    }
    if gpus.is_some() {
        // Before the lab starts, so that whoever interrupts this has no lab rather than half of one.
        build_for_gpus()?;
    }
    let start = Instant::now();
    let ready = lab.up(&wanted, &images(lab)?)?;
    let (version, seconds) = (wanted.release.version, start.elapsed().as_secs_f64());
    println!("Kubernetes {version} is up: {ready} ({seconds:.1} s in all)");
    match gpus {
        Some(machine) => simulate_gpus(lab, machine)?,
        None => println!("try: cargo xtask lab exec kubectl get nodes"),
    }
    Ok(())
}

/// Ends a lab, and takes its GPUs with it.
fn down(lab: &Lab) -> Result<()> {
    lab.down()?;
    let folder = gpus_of(lab).machine_folder();
    match folder.parent().map(fs::remove_dir_all) {
        Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| folder.display().to_string())
        }
        _ => {
            println!("the lab is down");
            Ok(())
        }
    }
}

/// Where the GPUs of the first node are.
fn gpus_of(lab: &Lab) -> SimulatedGpus {
    SimulatedGpus::at(&lab.scratch().join("carve-lab-gpus"))
}

/// File with the chart's values for them.
fn values_of(lab: &Lab) -> PathBuf {
    gpus_of(lab).machine_folder().with_file_name("values.json")
}

/// What simulated GPUs are made of, and Helm, with which carve comes to them.
fn build_for_gpus() -> Result<()> {
    run(cargo().args(["build", "--package", "carve-nvml-sim", "--package", "carve-cuda-sim"]))?;
    crate::incumbents::helm()
}

/// Puts simulated GPUs onto the first node, and says how carve comes to it.
fn simulate_gpus(lab: &Lab, machine: &str) -> Result<()> {
    let folder = gpus_of(lab).machine_folder();
    let folder = folder.parent().context("a folder has one above")?;
    let gpus = SimulatedGpus::install(folder, &root().join("target/debug"), machine)?;
    let values = serde_json::to_string_pretty(&lab.chart_values("node0", &gpus)?)?;
    fs::write(values_of(lab), values)?;
    println!("its node has the GPUs of {machine}, simulated");
    println!("try: cargo xtask lab shell, which has kubectl, helm and carve, and $VALUES for the chart");
    Ok(())
}

/// Runs a command on the first node, in the repository, with everything at hand that people have: kubectl, helm, carve, and the chart's values.
fn at_hand(lab: &Lab, command: &[&str]) -> Result<()> {
    let programs = crate::incumbents::programs();
    let (root, values) = (root(), values_of(lab));
    let mut script = format!(
        "cd '{}' && export PATH=\"{}:{}:$PATH\" VALUES='{}' {WITHIN}=yes PS1='(lab) \\w\\$ '",
        root.display(),
        programs.display(),
        root.join("target/debug").display(),
        values.display()
    );
    let gpus = gpus_of(lab);
    if gpus.state().exists() {
        // carve asks the same driver as the node's agent.
        let (driver, state) = (gpus.libraries().join("libnvidia-ml.so.1"), gpus.state());
        script.push_str(&format!(" CARVE_NVML='{}' CARVE_SIM_STATE='{}'", driver.display(), state.display()));
    }
    script.push_str(" && exec \"$@\"");
    let words = [&["sh", "-c", &script, "sh"], command].concat();
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let mut command = lab.command(&words)?;
    // Cargo in there would build everything anew, and again outside.
    forget_ourselves(&mut command);
    let status = command.status()?;
    std::process::exit(status.code().unwrap_or(1));
}

/// Whether a lab can be started here.
pub(crate) fn is_possible() -> bool {
    cfg!(target_os = "linux") && read(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// What a lab must leave as it was: mounts, links, cgroups, processes of its own, and the writable sysctls that are
/// settings rather than counters or random values.
pub(crate) fn footprint() -> Result<BTreeSet<String>> {
    let mut seen = BTreeSet::new();
    let mut add =
        |kind: &str, text: String| seen.extend(text.lines().map(|line| format!("{kind}: {}", line.trim())));
    add("mount", fs::read_to_string("/proc/self/mounts")?);
    add("link", read(Command::new("ip").args(["-o", "link"]))?);
    let groups = read(Command::new("find").args(["/sys/fs/cgroup", "-maxdepth", "3", "-type", "d"]))?;
    // Others come and go on the machine meanwhile.
    let of_labs = |line: &&str| ["carve", "kube", "containerd"].iter().any(|name| line.contains(name));
    add("cgroup", groups.lines().filter(of_labs).collect::<Vec<_>>().join("\n"));
    let programs =
        fs::read_dir("/proc")?.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("comm")).ok());
    let ours = |name: &String| ["kube", "etcd", "containerd"].iter().any(|known| name.starts_with(known));
    add("process", programs.filter(ours).collect());
    add("sysctl", settings(Path::new("/proc/sys")));
    Ok(seen)
}

/// Every writable setting below a folder of /proc/sys.
fn settings(folder: &Path) -> String {
    /// Counters, random values, and what the kernel adjusts by itself.
    const MOVING: &[&str] = &[
        "ns_last_pid",
        "random",
        "drop_caches",
        "compact_memory",
        "stat_refresh",
        "tcp_fastopen_key",
        "perf_event_max_sample_rate",
        "hung_task_detect_count",
    ];
    let mut text = String::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let Ok(metadata) = entry.metadata() else { continue };
        if MOVING.contains(&name.as_str()) {
            continue;
        }
        if metadata.is_dir() {
            text.push_str(&settings(&path));
        } else if !metadata.permissions().readonly() {
            let value = fs::read_to_string(&path).unwrap_or_default();
            text.push_str(&format!("{} = {}\n", path.display(), value.trim().replace('\n', " ")));
        }
    }
    text
}

/// What is in the second footprint and not in the first. What is gone was somebody else's: a changed setting is new with its other value.
pub(crate) fn left_behind(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<String> {
    after.difference(before).map(|line| format!("  + {line}")).collect()
}
