//! Prints what a container runtime would do for one device of a CDI file, as commands for a shell: mounts, device nodes,
//! the hook. Run in a fresh mount namespace, they prove that the file is complete:
//!
//! ```text
//! edits_as_shell SPEC.json GPU-… /tmp/root | unshare --mount sh -e
//! ```
//! The root must hold a program and its loader; everything of the driver comes from the file.

use carve_formats::cdi::{ContainerEdits, Spec};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [spec, device, root] = words.as_slice() else {
        eprintln!("usage: edits_as_shell SPEC.json DEVICE ROOT");
        return ExitCode::from(2);
    };
    let read = std::fs::read_to_string(spec).map_err(|error| error.to_string());
    let spec = match read.and_then(|text| Spec::parse(&text).map_err(|error| error.to_string())) {
        Ok(spec) => spec,
        Err(error) => {
            eprintln!("{spec}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let Some(found) = spec.devices.iter().find(|known| known.name == *device) else {
        eprintln!("the file has no device {device}");
        return ExitCode::FAILURE;
    };
    println!("mount --make-rprivate /");
    println!("mount --bind {root} {root}");
    edit(root, &found.container_edits);
    edit(root, &spec.container_edits);
    ExitCode::SUCCESS
}

fn edit(root: &str, edits: &ContainerEdits) {
    for node in &edits.device_nodes {
        let path = format!("{root}{}", node.path);
        let host = if node.host_path.is_empty() { &node.path } else { &node.host_path };
        println!("mkdir -p $(dirname {path}) && touch {path} && mount --bind {host} {path}");
    }
    for mount in &edits.mounts {
        let (host, path) = (&mount.host_path, format!("{root}{}", mount.container_path));
        println!(
            "mkdir -p $(dirname {path}); if test -d {host}; then mkdir -p {path}; else touch {path}; fi"
        );
        println!("mount --bind {host} {path} && mount -o remount,bind,ro {path}");
    }
    for hook in &edits.hooks {
        // A runtime hands the container's state to the hook; its bundle names the root.
        println!(
            "mkdir -p {root}.bundle && echo '{{\"root\": {{\"path\": \"{root}\"}}}}' > {root}.bundle/config.json"
        );
        let words: Vec<String> = hook.args.iter().skip(1).map(|word| format!("'{word}'")).collect();
        let state = format!(
            "{{\"ociVersion\": \"1.0.2\", \"id\": \"bare\", \"status\": \"creating\", \"bundle\": \"{root}.bundle\"}}"
        );
        println!("echo '{state}' | {} {}", hook.path, words.join(" "));
    }
}
