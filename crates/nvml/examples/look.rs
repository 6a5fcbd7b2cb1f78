//! Prints what this machine's driver tells, changing nothing: `cargo run -p carve-nvml --example look [LIBRARY]`.

use carve_gpu_host::GpuHost;
use carve_nvml::Nvml;
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let library = std::env::args_os().nth(1).map(PathBuf::from);
    let started = Instant::now();
    let mut host = Nvml::open(library.as_deref())?;
    println!("opened in {:?}", started.elapsed());
    println!("{:#?}", host.driver()?);
    let gpus = host.gpus()?;
    for gpu in &gpus {
        println!("{gpu:#?}");
        println!("memory {:?}", host.memory(gpu.index));
        println!("utilisation {:?}", host.utilisation(gpu.index));
        println!("processes {:?}", host.processes(gpu.index));
        println!("MIG mode {:?}", host.mig_mode(gpu.index));
        println!("fabric {:?}", host.fabric(gpu.index));
        match host.profile_table(gpu.index) {
            Ok(table) => {
                for profile in table.profiles() {
                    let places: Vec<String> = profile.placements.iter().map(ToString::to_string).collect();
                    println!(
                        "profile {} id {} index {} most {} {:?} MiB, {:?} SMs, {:?}, at {}",
                        profile.name,
                        profile.id,
                        profile.index.0,
                        profile.max_instances,
                        profile.memory.map(|fact| fact.value.0),
                        profile.multiprocessors.map(|fact| fact.value),
                        profile.engines,
                        places.join(" ")
                    );
                }
            }
            Err(error) => println!("{error}"),
        }
        println!("GPU instances {:?}", host.gpu_instances(gpu.index));
        println!("MIG devices {:?}", host.mig_devices(gpu.index));
        for other in &gpus {
            println!("to GPU {}: {:?}", other.index, host.link(gpu.index, other.index));
        }
    }
    let started = Instant::now();
    println!("next event {:?} after {:?}", host.next_event(Duration::from_millis(200)), started.elapsed());
    Ok(())
}
