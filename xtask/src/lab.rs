//! `cargo xtask lab`: a real Kubernetes on this machine, started and ended.

use anyhow::{Result, bail};
use carve_lab::{Lab, Places, Release, Status};
use std::time::Instant;

/// Answers a verb.
pub(crate) fn lab(words: &[&str]) -> Result<()> {
    let lab = Lab::new(Places::usual());
    match words {
        ["up"] => up(&lab, Release::DEFAULT),
        ["up", "--kubernetes", release] => up(&lab, Release::named(release)?),
        ["down"] => lab.down(),
        ["status"] => {
            match lab.status() {
                Status::Down => println!("down"),
                Status::Starting => println!("starting"),
                Status::Ready(text) => println!("up: {text}"),
            }
            Ok(())
        }
        ["exec", command @ ..] if !command.is_empty() => {
            let words: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            let status = lab.command(&words)?.status()?;
            std::process::exit(status.code().unwrap_or(1));
        }
        ["kubeconfig"] => {
            println!("{}", lab.kubeconfig().display());
            Ok(())
        }
        ["logs"] => {
            lab.logs().iter().for_each(|name| println!("{name}"));
            Ok(())
        }
        ["logs", component] => {
            print!("{}", lab.log(component)?);
            Ok(())
        }
        _ => bail!(
            "usage: cargo xtask lab up [--kubernetes 1.36] | down | status | exec CMD… | kubeconfig | logs [COMPONENT]"
        ),
    }
}

fn up(lab: &Lab, release: Release) -> Result<()> {
    let start = Instant::now();
    let ready = lab.up(release, &[])?;
    println!("Kubernetes {} is up: {ready} ({:.1} s in all)", release.version, start.elapsed().as_secs_f64());
    println!("try: cargo xtask lab exec kubectl get nodes");
    Ok(())
}
