//! Which devices a process sees: what `CUDA_VISIBLE_DEVICES` means on a machine.
//!
//! Entries are numbers in PCI order (what follows the digits is not looked at), beginnings of GPU UUIDs that fit one
//! GPU, or MIG devices (`MIG-UUID`, or the older `MIG-GPU-UUID/GI/CI`). The first entry that names nothing ends the
//! list; a device named twice makes `cuInit` refuse. So far driver 580 was asked; that a GPU in MIG mode stands for
//! its first MIG device, and that a process sees one MIG device at the most, is what NVIDIA's guide says.

use crate::device::{Candidate, Device};
use crate::error::{Answer, Code};

/// The devices that a process sees, in its order.
pub(crate) fn visible(variable: Option<&str>, machine: &[Candidate]) -> Answer<Vec<Device>> {
    let named: Vec<&Device> = match variable {
        None => machine.iter().filter_map(first_of).collect(),
        Some(text) => text.split(',').map_while(|entry| named(entry.trim(), machine)).collect(),
    };
    if named.iter().enumerate().any(|(at, one)| named[..at].iter().any(|other| other.uuid == one.uuid)) {
        return Err(Code::INVALID_DEVICE);
    }
    Ok(match named.first() {
        Some(first) if first.mig.is_some() => vec![(*first).clone()],
        _ => named.into_iter().filter(|device| device.mig.is_none()).cloned().collect(),
    })
}

/// What a GPU stands for as a whole.
fn first_of(candidate: &Candidate) -> Option<&Device> {
    match &candidate.parts {
        Some(parts) => parts.first(),
        None => Some(&candidate.whole),
    }
}

fn named<'a>(entry: &str, machine: &'a [Candidate]) -> Option<&'a Device> {
    if let Some(older) = entry.strip_prefix("MIG-GPU-") {
        return by_ids(older, machine);
    }
    if entry.starts_with("MIG-") {
        let parts = machine.iter().filter_map(|candidate| candidate.parts.as_ref()).flatten();
        return parts.into_iter().find(|part| part.uuid.eq_ignore_ascii_case(entry));
    }
    if entry.starts_with("GPU-") {
        let fits = |candidate: &&Candidate| {
            candidate.whole.uuid.get(..entry.len()).is_some_and(|start| start.eq_ignore_ascii_case(entry))
        };
        // Four characters are the prefix alone.
        let mut fitting = machine.iter().filter(|_| entry.len() > 4).filter(fits);
        let only = fitting.next().filter(|_| fitting.next().is_none());
        return only.and_then(first_of);
    }
    let digits = entry.split(|digit: char| !digit.is_ascii_digit()).next()?;
    let index: u32 = digits.parse().ok()?;
    machine.iter().find(|candidate| candidate.number == index).and_then(first_of)
}

/// A MIG device by its GPU and the ids of its instances.
fn by_ids<'a>(older: &str, machine: &'a [Candidate]) -> Option<&'a Device> {
    let mut fields = older.split('/');
    let (uuid, instance, compute) = (fields.next()?, fields.next()?, fields.next()?);
    let (instance, compute): (u32, u32) = (instance.parse().ok()?, compute.parse().ok()?);
    let gpu = machine.iter().find(|candidate| candidate.whole.uuid.strip_prefix("GPU-") == Some(uuid))?;
    gpu.parts.iter().flatten().find(|part| {
        part.mig
            .as_ref()
            .is_some_and(|mig| mig.gpu_instance.0 == instance && mig.compute_instance.0 == compute)
    })
}

#[cfg(test)]
mod tests {
    use super::visible;
    use crate::device::all;
    use crate::error::Code;
    use carve_gpu_host::{GpuHost, Machine, SimulatedHost, compute_instance_minor, gpu_instance_minor};
    use carve_gpu_model::{GpuIndex, ProfileId};
    use carve_sim_store::DeviceNodes;

    /// Two A100, an H100 cut into two halves, and a T4.
    fn machine() -> SimulatedHost {
        let mut host = SimulatedHost::new(Machine::named("mixed").unwrap());
        let gpu = GpuIndex(2);
        host.set_mig_mode(gpu, true).unwrap();
        for _ in 0..2 {
            let instance = host.create_gpu_instance(gpu, ProfileId(9), None).unwrap();
            let offer = *host.compute_profiles(gpu, instance.id).unwrap().last().unwrap();
            host.create_compute_instance(gpu, instance.id, offer.index).unwrap();
        }
        host
    }

    #[test]
    fn entries_mean_what_the_driver_takes_them_for() {
        let host = machine();
        let (gpus, parts) = (host.gpus().unwrap(), host.mig_devices(GpuIndex(2)).unwrap());
        let candidates = all(&host, None).unwrap();
        let uuid = |index: usize| gpus[index].uuid.0.as_str();
        let (first, second) = (parts[0].uuid.0.as_str(), parts[1].uuid.0.as_str());
        let older = format!("MIG-{}/{}/{}", uuid(2), parts[1].gpu_instance, parts[1].compute_instance);
        let abbreviated = &uuid(3)[..12];
        for (text, expected) in [
            (None, vec![uuid(0), uuid(1), uuid(3)]),
            (Some(""), vec![]),
            (Some("-1"), vec![]),
            (Some("none"), vec![]),
            (Some("3,0"), vec![uuid(3), uuid(0)]),
            (Some(" 1 , 0"), vec![uuid(1), uuid(0)]),
            (Some("1,9,0"), vec![uuid(1)]),
            (Some("00"), vec![uuid(0)]),
            (Some("1x,0"), vec![uuid(1), uuid(0)]),
            (Some("0x0"), vec![uuid(0)]),
            (Some(uuid(1)), vec![uuid(1)]),
            (Some(abbreviated), vec![uuid(3)]),
            (Some(&uuid(3).to_uppercase()), vec![uuid(3)]),
            (Some("GPU-"), vec![]),
            (Some("2"), vec![first]),
            (Some(uuid(2)), vec![first]),
            (Some(second), vec![second]),
            (Some(&older), vec![second]),
            (Some(&format!("{second},{first},0")), vec![second]),
            (Some(&format!("0,{second}")), vec![uuid(0)]),
            (Some(&second[..20]), vec![]),
        ] {
            let seen = visible(text, &candidates).unwrap();
            assert_eq!(
                seen.iter().map(|device| device.uuid.as_str()).collect::<Vec<_>>(),
                expected,
                "{text:?}"
            );
        }
        for twice in ["0,0", &format!("1,{}", uuid(1)), &format!("{first},2")] {
            assert_eq!(visible(Some(twice), &candidates).unwrap_err(), Code::INVALID_DEVICE, "{twice}");
        }
    }

    #[test]
    fn only_what_has_its_nodes_is_there_and_the_rest_is_numbered_anew() {
        let host = machine();
        let (gpus, parts) = (host.gpus().unwrap(), host.mig_devices(GpuIndex(2)).unwrap());
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("nvidia-caps")).unwrap();
        let nodes = DeviceNodes::new(folder.path());
        let make = |name: &str| std::fs::write(folder.path().join(name), "").unwrap();
        let seen = |text: Option<&str>| -> Vec<String> {
            let devices = visible(text, &all(&host, Some(&nodes)).unwrap()).unwrap();
            devices.into_iter().map(|device| device.uuid).collect()
        };
        assert!(
            seen(None).is_empty() && seen(Some("0")).is_empty() && seen(Some(&gpus[0].uuid.0)).is_empty()
        );
        make("nvidia1");
        make("nvidia2");
        // Watching MIG devices is not using them.
        make("nvidia-caps/nvidia-cap2");
        assert_eq!(seen(None), [gpus[1].uuid.0.clone()]);
        assert_eq!(seen(Some("0")), [gpus[1].uuid.0.clone()]);
        assert!(seen(Some("1")).is_empty() && seen(Some(&parts[1].uuid.0)).is_empty());
        let instance = gpu_instance_minor(2, parts[1].gpu_instance);
        let compute = compute_instance_minor(2, parts[1].gpu_instance, parts[1].compute_instance);
        make(&format!("nvidia-caps/nvidia-cap{instance}"));
        make(&format!("nvidia-caps/nvidia-cap{compute}"));
        assert_eq!(seen(Some("1")), [parts[1].uuid.0.clone()]);
        assert!(seen(Some(&parts[0].uuid.0)).is_empty());
    }

    #[test]
    fn a_part_is_smaller_than_its_gpu_and_says_so() {
        let host = machine();
        let part = &visible(Some("2"), &all(&host, None).unwrap()).unwrap()[0];
        assert!(part.name.starts_with("NVIDIA H100 PCIe MIG 3g."), "{}", part.name);
        let whole = &all(&host, None).unwrap()[2].whole;
        assert!(part.memory < whole.memory / 2 + (1 << 30) && part.multiprocessors < whole.multiprocessors);
    }

    #[test]
    fn a_cut_gpu_without_parts_is_no_device() {
        let mut host = SimulatedHost::new(Machine::named("h200").unwrap());
        host.set_mig_mode(GpuIndex(0), true).unwrap();
        assert!(visible(None, &all(&host, None).unwrap()).unwrap().is_empty());
        host.set_mig_mode(GpuIndex(0), false).unwrap();
        assert_eq!(visible(None, &all(&host, None).unwrap()).unwrap().len(), 1);
        host.lose(GpuIndex(0));
        assert!(visible(Some("0"), &all(&host, None).unwrap()).unwrap().is_empty());
    }
}
