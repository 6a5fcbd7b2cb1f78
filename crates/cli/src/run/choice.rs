//! Which part a command gets, and whether what it asks for is left there.

use super::args::RunArgs;
use crate::failure::Failure;
use crate::machine::Chosen;
use carve_gpu_host::GpuHost;
use carve_gpu_model::GpuIndex;
use carve_limiter_host::Limits;

/// A GPU or MIG device that commands can share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) uuid: String,
    /// As people call it.
    pub(crate) title: String,
    /// Bytes of memory.
    pub(crate) memory: u64,
    /// The GPU that it is, if it is a whole one.
    pub(crate) gpu: Option<GpuIndex>,
}

/// The parts that come into question, best first.
pub(crate) fn parts(chosen: &Chosen, asked: Option<&str>) -> Result<Vec<Part>, Failure> {
    let host = chosen.host.as_ref();
    let gpus = host.gpus().map_err(|error| chosen.failure(&error))?;
    if gpus.is_empty() {
        return Err(Failure::new("this machine has no GPUs").hint("carve gpus lists them"));
    }
    let is_cut =
        |gpu: &carve_gpu_host::Gpu| host.mig_mode(gpu.index).ok().flatten().is_some_and(|mode| mode.current);
    let whole = |gpu: &carve_gpu_host::Gpu| Part {
        uuid: gpu.uuid.0.clone(),
        title: format!("GPU {}", gpu.index),
        memory: gpu.memory.0,
        gpu: Some(gpu.index),
    };
    let Some(asked) = asked else {
        let parts: Vec<Part> = gpus.iter().filter(|gpu| !is_cut(gpu)).map(whole).collect();
        return if parts.is_empty() {
            Err(Failure::new("MIG is on at every GPU of this machine")
                .hint("name a MIG device: --gpu MIG-…; carve gpus -o json lists them"))
        } else {
            Ok(parts)
        };
    };
    let named = gpus.iter().find(|gpu| gpu.uuid.0 == asked || gpu.index.to_string() == asked);
    if let Some(gpu) = named {
        return if is_cut(gpu) {
            Err(Failure::new(format!("MIG is on at GPU {}, so no command can use it as a whole", gpu.index))
                .hint("name one of its MIG devices: --gpu MIG-…; carve gpus -o json lists them"))
        } else {
            Ok(vec![whole(gpu)])
        };
    }
    let instance = gpus.iter().filter(|gpu| is_cut(gpu)).find_map(|gpu| mig_device(host, gpu, asked));
    instance.map(|part| vec![part]).ok_or_else(|| {
        let last = gpus.len() - 1;
        let there = if last == 0 { "only GPU 0 is here".to_owned() } else { format!("0 to {last} are here") };
        Failure::new(format!("--gpu {asked}: there is no such GPU or MIG device; {there}"))
            .hint("carve gpus -o wide shows every UUID")
    })
}

fn mig_device(host: &dyn GpuHost, gpu: &carve_gpu_host::Gpu, asked: &str) -> Option<Part> {
    let devices = host.mig_devices(gpu.index).unwrap_or_default();
    let device = devices.into_iter().find(|device| device.uuid.0 == asked)?;
    Some(Part {
        uuid: device.uuid.0,
        title: format!("a MIG device of GPU {}", gpu.index),
        memory: device.memory.0 << 20,
        gpu: None,
    })
}

/// What a command gets of a part beside those who are there, or why it gets nothing.
pub(crate) fn fit(part: &Part, taken: &[Limits], args: &RunArgs) -> Result<Limits, String> {
    let memory_taken: u64 = taken.iter().fold(0, |sum, limits| sum.saturating_add(limits.memory));
    let memory_left = part.memory.saturating_sub(memory_taken);
    let compute_left = 10_000u32.saturating_sub(taken.iter().map(|limits| limits.compute).sum());
    let asked = args.memory.unwrap_or(memory_left);
    let limits = Limits {
        memory: asked,
        compute: args.compute.unwrap_or(0),
        context: 0,
        burst: args.burst,
        pass: false,
        mps: false,
    };
    let others = match taken.len() {
        0 => String::new(),
        1 => ", and another command has the rest".to_owned(),
        count => format!(", and {count} other commands have the rest"),
    };
    // More than there is is never there, whatever others do.
    if asked > part.memory || (asked > memory_left && !args.overcommit) {
        return Err(format!(
            "{}: {} of memory are asked for, {} of {} are left{others}",
            part.title,
            bytes(asked),
            bytes(memory_left),
            bytes(part.memory)
        ));
    }
    if asked == 0 {
        return Err(format!("{}: no memory is left of {}{others}", part.title, bytes(part.memory)));
    }
    if limits.compute > compute_left && !args.overcommit {
        return Err(format!(
            "{}: {} of the time are asked for, {} are left{others}",
            part.title,
            percent(limits.compute),
            percent(compute_left)
        ));
    }
    Ok(limits)
}

/// The same share with what a context takes of it, or why nothing would fit.
pub(crate) fn contain(part: &Part, limits: Limits, context: u64) -> Result<Limits, String> {
    if limits.memory > context {
        return Ok(Limits { context, ..limits });
    }
    Err(format!(
        "{}: a share of {} has room for no program, because the driver takes {} of it for each process that uses the GPU",
        part.title,
        bytes(limits.memory),
        bytes(context)
    ))
}

/// An amount of memory for people.
pub(crate) fn bytes(amount: u64) -> String {
    if amount >= 1 << 30 {
        format!("{:.1} GiB", amount as f64 / f64::from(1 << 30))
    } else {
        format!("{:.0} MiB", amount as f64 / f64::from(1 << 20))
    }
}

/// Hundredths of a percent for people.
pub(crate) fn percent(hundredths: u32) -> String {
    format!("{} %", f64::from(hundredths) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::{Part, contain, fit};
    use crate::args::{Cli, Verb};
    use carve_limiter_host::Limits;
    use clap::Parser;

    fn fits(words: &str, taken: &[(u64, u32)]) -> Result<(u64, u32), String> {
        let part = Part { uuid: "GPU-1".to_owned(), title: "GPU 0".to_owned(), memory: 10 << 30, gpu: None };
        let limits = |&(gib, compute): &(u64, u32)| Limits {
            memory: gib << 30,
            compute,
            context: 0,
            burst: false,
            pass: false,
            mps: false,
        };
        let taken: Vec<Limits> = taken.iter().map(limits).collect();
        let cli = Cli::try_parse_from(format!("carve run {words} -- true").split_whitespace());
        let Verb::Run(args) = cli.expect("a command line").verb else { unreachable!("it says run") };
        fit(&part, &taken, &args).map(|limits| (limits.memory >> 30, limits.compute))
    }

    #[test]
    fn a_share_has_room_for_more_than_a_context() {
        let part = Part { uuid: "GPU-1".to_owned(), title: "GPU 0".to_owned(), memory: 10 << 30, gpu: None };
        let share =
            |memory: u64| Limits { memory, compute: 0, context: 0, burst: false, pass: false, mps: false };
        let contained = |memory, context| contain(&part, share(memory), context).map(|limits| limits.context);
        assert_eq!(contained((526 << 20) + 1, 526 << 20), Ok(526 << 20));
        assert_eq!(contained(1, 0), Ok(0));
        let refused = contained(526 << 20, 526 << 20).expect_err("no room");
        assert!(
            refused.starts_with("GPU 0: a share of 526 MiB") && refused.contains("takes 526 MiB"),
            "{refused}"
        );
    }

    #[test]
    fn what_others_have_is_not_given_twice() {
        assert_eq!(fits("--memory 4Gi --compute 50", &[(6, 5_000)]), Ok((4, 5_000)));
        assert_eq!(fits("", &[(6, 5_000)]), Ok((4, 0)));
        let refused = fits("--memory 5Gi", &[(6, 0)]).expect_err("too much memory");
        assert_eq!(
            refused,
            "GPU 0: 5.0 GiB of memory are asked for, 4.0 GiB of 10.0 GiB are left, and another command has the rest"
        );
        assert_eq!(fits("--memory 5Gi --overcommit", &[(6, 0)]), Ok((5, 0)));
        assert!(fits("--memory 11Gi --overcommit", &[]).is_err());
        assert!(fits("", &[(5, 0), (5, 0)]).expect_err("nothing left").contains("2 other commands"));
        assert!(fits("--memory 1Gi --compute 60", &[(1, 5_000)]).is_err());
        assert_eq!(fits("--memory 1Gi --compute 60 --overcommit", &[(1, 5_000)]), Ok((1, 6_000)));
    }
}
