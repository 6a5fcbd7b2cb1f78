//! Both probes on this machine's GPUs: `cargo run -p carve-cuda --example probe [LIBRARY]`.
//!
//! Needs nothing but the driver. As `probe cuda-probe look|vector-add [--device N|UUID]` it is the child that `carve
//! cuda-probe` is, printing one line of JSON.

use carve_cuda::{Attribute, Cuda, Probe, look, probe_main, vector_add};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if(|first| first == "cuda-probe").is_some() {
        let code = probe_main(arguments, &mut std::io::stdout(), &mut std::io::stderr())?;
        return Ok(ExitCode::from(code));
    }
    let library = arguments.next().map(PathBuf::from);
    let cuda = Cuda::open(library.as_deref())?;
    let (major, minor) = cuda.version()?;
    println!("{} serves CUDA {major}.{minor}", cuda.library().display());
    for ordinal in 0..cuda.count()? {
        let device = cuda.device(ordinal)?;
        let capability = (
            device.attribute(Attribute::ComputeCapabilityMajor)?,
            device.attribute(Attribute::ComputeCapabilityMinor)?,
        );
        println!("device {ordinal}: {} {:?} of capability {capability:?}", device.memory()?, device.uuid()?);
        println!("  here:     {:?}", look(device)?);
        println!("  here:     {:?}", vector_add(device)?);
        let mut child = Probe::new(std::env::current_exe()?);
        child.device = carve_cuda::DeviceChoice::Uuid(device.uuid()?);
        child.library.clone_from(&library);
        // Ordinals of this process need not be those of a child whose devices are counted in PCI order.
        println!("  in child: {:?}", child.look()?);
        println!("  in child: {:?}", child.vector_add()?);
    }
    Ok(ExitCode::SUCCESS)
}
