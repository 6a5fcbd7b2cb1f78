//! What CUDA tells about an address, and handles with which another holder of an allocation finds it.

use crate::context::Here;
use crate::error::{Answer, Code};
use crate::handle::{Handle, Thing};
use crate::host::Kind;
use crate::memory::Origin;
use crate::session::Session;
use crate::structs::IpcHandle;
use std::ffi::c_int;

/// Marks a handle of ours.
const MARK: &[u8; 8] = b"carvesim";

/// What is at an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) start: u64,
    pub(crate) length: u64,
    here: Option<Here>,
    /// In memory of the host, at the same address.
    on_host: bool,
    managed: bool,
    pool: Option<u32>,
}

/// A number as wide as C has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// `bool`
    Byte(u8),
    /// `int` and the like
    Word(u32),
    /// Pointers and sizes.
    Long(u64),
}

impl Session {
    /// What is at an address, if CUDA knows it.
    pub(crate) fn find(&mut self, address: u64) -> Answer<Found> {
        if let Some((start, piece)) = self.host_memory.at(address, 1) {
            let managed = matches!(piece.kind, Kind::Managed(_));
            let here = Some(piece.here);
            return Ok(Found { start, length: piece.length, here, on_host: true, managed, pool: None });
        }
        if let Some((start, length, device)) = self.mapped.mapping(address) {
            // Mapped memory belongs to no context.
            let here = device.map(|device| Here { context: device, device });
            return Ok(Found { start, length, here, on_host: device.is_none(), managed: false, pool: None });
        }
        let (start, allocation) = self.memory.allocation_at(address).ok_or(Code::INVALID_VALUE)?;
        let pool = match allocation.origin {
            Origin::Pool(pool) => Some(pool),
            _ => None,
        };
        let length = allocation.pages.length();
        Ok(Found { start, length, here: Some(allocation.here), on_host: false, managed: false, pool })
    }

    /// One attribute of an address.
    pub(crate) fn pointer_attribute(&mut self, attribute: c_int, address: u64) -> Answer<Width> {
        let found = self.find(address)?;
        let here = found.here.ok_or(Code::INVALID_VALUE);
        Ok(match attribute {
            1 => Width::Long(Handle::of(Thing::Context(here?.context)).value() as u64),
            // 1 is memory of the host, 2 of a device.
            2 => Width::Word(if found.on_host && !found.managed { 1 } else { 2 }),
            3 => Width::Long(address),
            4 if found.on_host => Width::Long(address),
            // Every allocation has an address that no other one gets.
            7 => Width::Long(found.start),
            8 => Width::Byte(found.managed.into()),
            9 => Width::Word(here?.device),
            10 => Width::Byte((!found.on_host && found.pool.is_none()).into()),
            11 => Width::Long(found.start),
            12 => Width::Long(found.length),
            13 => Width::Byte(1),
            17 => Width::Long(found.pool.map_or(0, |pool| Handle::of(Thing::Pool(pool)).value() as u64)),
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    /// A handle of the allocation that an address lies in.
    pub(crate) fn ipc_handle(&mut self, address: u64) -> Answer<IpcHandle> {
        let found = self.find(address)?;
        if found.on_host || found.pool.is_some() {
            return Err(Code::INVALID_VALUE);
        }
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(MARK);
        bytes[8..16].copy_from_slice(&u64::from(std::process::id()).to_le_bytes());
        bytes[16..24].copy_from_slice(&found.start.to_le_bytes());
        Ok(IpcHandle(bytes))
    }

    /// The address of the allocation that a handle of this process names; it is the one it always had.
    pub(crate) fn open_ipc(&mut self, handle: &IpcHandle) -> Answer<u64> {
        self.here()?;
        let number = |from: usize| {
            let bytes = handle.0.get(from..from + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u64::from_le_bytes).ok_or(Code::INVALID_VALUE)
        };
        if !handle.0.starts_with(MARK) || number(8)? != u64::from(std::process::id()) {
            return Err(Code::INVALID_VALUE);
        }
        let start = self.find(number(16)?)?.start;
        *self.opened.entry(start).or_default() += 1;
        Ok(start)
    }

    /// Closes what was opened.
    pub(crate) fn close_ipc(&mut self, address: u64) -> Answer {
        self.here()?;
        let times = self.opened.get_mut(&address).ok_or(Code::INVALID_VALUE)?;
        *times -= 1;
        if *times == 0 {
            self.opened.remove(&address);
        }
        Ok(())
    }
}
