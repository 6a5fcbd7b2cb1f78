//! Virtual GPUs, and the driver of the hypervisor that serves them, as they stand in PCI configuration space.
//!
//! A virtual GPU has a vendor-specific capability (id 0x09) that goes on with the letters `VF` and then records: a byte
//! that says what it is, a byte that says how long it is with these two, and its content. Record 0 holds version and
//! branch of the host's driver, ten bytes each, filled up with zeroes.

use super::names::LabelSet;
use thiserror::Error;

/// A virtual GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vgpu {
    /// What serves it, where it tells.
    pub host: Option<VgpuHost>,
}

/// The driver of the hypervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VgpuHost {
    /// Its version, such as `550.54`.
    pub driver_version: String,
    /// Its branch, such as `r550_00`.
    pub driver_branch: String,
}

/// The configuration space was not read as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "{read} bytes of PCI configuration space were read where a device has {CONFIG_LENGTH}; the kernel shows all of them \
     to root only, so run the agent privileged, or do without vGPU labels"
)]
pub struct ShortConfigError {
    /// How much was read.
    pub read: usize,
}

const CONFIG_LENGTH: usize = 256;
const STATUS: usize = 0x06;
const STATUS_HAS_CAPABILITIES: u8 = 0x10;
const FIRST_CAPABILITY: usize = 0x34;
const VENDOR_SPECIFIC: u8 = 0x09;
/// What an unplugged device answers to everything.
const NOTHING_THERE: u8 = 0xFF;
const SIGNATURE: &[u8] = b"VF";
const HOST_DRIVER_RECORD: u8 = 0;
const TEXT_LENGTH: usize = 10;

impl Vgpu {
    /// Reads the configuration space of one of NVIDIA's PCI devices. `None` means that it is no virtual GPU.
    pub fn read(config: &[u8]) -> Result<Option<Self>, ShortConfigError> {
        let config = config.get(..CONFIG_LENGTH).ok_or(ShortConfigError { read: config.len() })?;
        let records = vendor_capability(config).and_then(|capability| {
            // Id, next and length stand before the signature.
            capability.get(3..)?.strip_prefix(SIGNATURE)
        });
        Ok(records.map(|records| Vgpu { host: host(records) }))
    }
}

/// The first vendor-specific capability, as far as it is inside the configuration space.
fn vendor_capability(config: &[u8]) -> Option<&[u8]> {
    if config.get(STATUS)? & STATUS_HAS_CAPABILITIES == 0 {
        return None;
    }
    let mut at = usize::from(*config.get(FIRST_CAPABILITY)?);
    // A chain can not have more links than bytes; one that does is a ring.
    for _ in 0..CONFIG_LENGTH {
        let id = *config.get(at)?;
        if at == 0 || id == NOTHING_THERE {
            return None;
        }
        if id == VENDOR_SPECIFIC {
            let length = usize::from(*config.get(at + 2)?);
            return config.get(at..(at + length).min(CONFIG_LENGTH));
        }
        at = usize::from(*config.get(at + 1)?);
    }
    None
}

/// The record about the host's driver among all records.
fn host(mut records: &[u8]) -> Option<VgpuHost> {
    loop {
        let (kind, length) = (*records.first()?, usize::from(*records.get(1)?));
        if kind == HOST_DRIVER_RECORD {
            let (version, rest) = records.get(2..)?.split_at_checked(TEXT_LENGTH)?;
            let (branch, _) = rest.split_at_checked(TEXT_LENGTH)?;
            return Some(VgpuHost { driver_version: text(version), driver_branch: text(branch) });
        }
        // A record is at least its own head; anything less would be read again and again.
        records = records.get(length.max(2)..)?;
    }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.iter().take(end).map(|byte| char::from(*byte)).collect()
}

/// Labels of virtual GPUs. All are served by one hypervisor, so the last one speaks for them.
pub(super) fn label(vgpus: &[Vgpu], set: &mut LabelSet) {
    set.nvidia("vgpu.present", !vgpus.is_empty());
    if let Some(host) = vgpus.iter().rev().find_map(|vgpu| vgpu.host.as_ref()) {
        set.nvidia("vgpu.host-driver-version", &host.driver_version);
        set.nvidia("vgpu.host-driver-branch", &host.driver_branch);
    }
}

#[cfg(test)]
mod tests {
    use super::{ShortConfigError, Vgpu, VgpuHost};

    /// Configuration space with chained capabilities: each has its place and its bytes, of which the second is filled in.
    fn config(capabilities: &[(u8, &[u8])]) -> Vec<u8> {
        let mut config = vec![0; 256];
        config[6] = 0x10;
        let mut next_at = 0x34;
        for (place, bytes) in capabilities {
            config[next_at] = *place;
            let place = usize::from(*place);
            config[place..place + bytes.len()].copy_from_slice(bytes);
            next_at = place + 1;
        }
        config
    }

    const MSI: (u8, &[u8]) = (0x68, &[0x05, 0, 0x81, 0]);

    /// The record about a host's driver, 22 bytes long.
    fn host_record() -> Vec<u8> {
        [&[0, 22][..], b"550.54.10\0", b"r550_00\0\0\0"].concat()
    }

    fn vgpu(records: &[u8]) -> Vec<u8> {
        [&[9, 0, 5 + records.len() as u8, b'V', b'F'][..], records].concat()
    }

    fn known() -> Vgpu {
        let (driver_version, driver_branch) = ("550.54.10".to_owned(), "r550_00".to_owned());
        Vgpu { host: Some(VgpuHost { driver_version, driver_branch }) }
    }

    #[test]
    fn a_virtual_gpu_tells_its_host() {
        let capability = vgpu(&host_record());
        assert_eq!(Vgpu::read(&config(&[MSI, (0xD0, &capability)])), Ok(Some(known())));
        // Express configuration space goes on behind.
        let mut long = config(&[(0xD0, &capability)]);
        long.resize(4096, 0xAA);
        assert_eq!(Vgpu::read(&long), Ok(Some(known())));
    }

    #[test]
    fn other_records_are_passed_over() {
        let records = [&[7, 3, 0xEE][..], &[8, 2], &host_record()].concat();
        assert_eq!(Vgpu::read(&config(&[(0xC0, &vgpu(&records))])), Ok(Some(known())));
        // One that claims to be shorter than its head does not stop the reading for ever.
        let records = [&[7, 0][..], &host_record()].concat();
        assert_eq!(Vgpu::read(&config(&[(0xC0, &vgpu(&records))])), Ok(Some(known())));
    }

    #[test]
    fn texts_may_fill_their_places() {
        let record = [&[0, 22][..], b"1234567890", b"abcdefghij"].concat();
        let host = Vgpu::read(&config(&[(0x40, &vgpu(&record))])).unwrap().unwrap().host.unwrap();
        assert_eq!((host.driver_version.as_str(), host.driver_branch.as_str()), ("1234567890", "abcdefghij"));
    }

    #[test]
    fn a_virtual_gpu_without_the_record_is_one_all_the_same() {
        let cut_short = &host_record()[..21];
        for records in [&[][..], &[7, 9, 1], &[0], cut_short, &[3, 200, 0, 0]] {
            assert_eq!(Vgpu::read(&config(&[(0x40, &vgpu(records))])), Ok(Some(Vgpu { host: None })));
        }
    }

    #[test]
    fn other_devices_are_no_virtual_gpus() {
        let passed_through = [9, 0, 20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let right = vgpu(&host_record());
        let mut silent = config(&[(0x40, &right)]);
        silent[6] = 0;
        let mut ring = config(&[(0x40, &[0x05, 0, 0]), (0x50, &[0x01, 0, 0])]);
        ring[0x51] = 0x40;
        for config in [
            config(&[]),
            config(&[MSI]),
            config(&[MSI, (0xB4, &passed_through)]),
            config(&[(0x40, &[9, 0, 4, b'V'])]),
            silent,
            ring,
            vec![0xFF; 256],
        ] {
            assert_eq!(Vgpu::read(&config), Ok(None));
        }
        // The capability runs over the end of the configuration space.
        assert_eq!(Vgpu::read(&config(&[(0xFE, &[9, 0])])), Ok(None));
    }

    #[test]
    fn what_an_unprivileged_reader_gets_is_told_as_such() {
        let short = vec![0; 64];
        let error = Vgpu::read(&short).unwrap_err();
        assert_eq!(error, ShortConfigError { read: 64 });
        assert!(
            error.to_string().contains("64 bytes") && error.to_string().contains("privileged"),
            "{error}"
        );
    }
}
