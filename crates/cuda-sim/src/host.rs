//! Memory of the host that CUDA knows of: pinned, managed and registered. None of it counts against a device.

use crate::context::Here;
use crate::error::{Answer, Code};
use crate::mapping::HostPages;
use crate::session::Session;
use std::collections::BTreeMap;
use std::ffi::c_uint;

/// What a piece of host memory is to CUDA.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Allocated by `cuMemHostAlloc` and the like.
    Pinned(#[allow(dead_code, reason = "holds the pages until it is dropped")] HostPages),
    /// Allocated by `cuMemAllocManaged`; devices name it by the same address.
    Managed(#[allow(dead_code, reason = "holds the pages until it is dropped")] HostPages),
    /// The program's own, made known.
    Registered,
}

/// A piece of host memory.
#[derive(Debug)]
pub(crate) struct HostPiece {
    pub(crate) kind: Kind,
    pub(crate) length: u64,
    pub(crate) flags: c_uint,
    pub(crate) here: Here,
}

/// All of it, by address.
#[derive(Debug, Default)]
pub(crate) struct Host(BTreeMap<u64, HostPiece>);

impl Host {
    /// The piece that so many bytes at an address lie in, and where it begins.
    pub(crate) fn at(&self, address: u64, length: usize) -> Option<(u64, &HostPiece)> {
        let (start, piece) = self.0.range(..=address).next_back()?;
        let end = address.checked_add(length as u64)?;
        (end <= start + piece.length).then_some((*start, piece))
    }

    /// Gives managed memory back, if that is what is at an address.
    pub(crate) fn free_managed(&mut self, address: u64) -> bool {
        let managed = self.0.get(&address).is_some_and(|piece| matches!(piece.kind, Kind::Managed(_)));
        managed && self.0.remove(&address).is_some()
    }

    fn remove(&mut self, address: u64, fits: impl Fn(&Kind) -> bool, otherwise: Code) -> Answer {
        if !self.0.get(&address).is_some_and(|piece| fits(&piece.kind)) {
            return Err(otherwise);
        }
        self.0.remove(&address);
        Ok(())
    }
}

impl Session {
    /// Allocates pinned memory.
    pub(crate) fn allocate_host(&mut self, bytes: usize, flags: c_uint) -> Answer<u64> {
        self.allocate_pages(bytes, flags, Kind::Pinned)
    }

    /// Allocates managed memory.
    pub(crate) fn allocate_managed(&mut self, bytes: usize, flags: c_uint) -> Answer<u64> {
        // Visible to every stream, or to the host alone until it is attached to one.
        if !matches!(flags, 1 | 2) {
            return Err(Code::INVALID_VALUE);
        }
        self.count_allocation()?;
        self.allocate_pages(bytes, flags, Kind::Managed)
    }

    fn allocate_pages(&mut self, bytes: usize, flags: c_uint, kind: fn(HostPages) -> Kind) -> Answer<u64> {
        let here = self.here()?;
        self.refuse_while_capturing()?;
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let pages = HostPages::new(bytes)?;
        let (address, length) = (pages.address(), pages.length());
        self.host_memory.0.insert(address, HostPiece { kind: kind(pages), length, flags, here });
        Ok(address)
    }

    /// Gives pinned memory back.
    pub(crate) fn free_host(&mut self, address: u64) -> Answer {
        self.refuse_while_capturing()?;
        self.host_memory.remove(address, |kind| matches!(kind, Kind::Pinned(_)), Code::INVALID_VALUE)
    }

    /// Makes memory of the program known.
    pub(crate) fn register_host(&mut self, address: u64, bytes: usize, flags: c_uint) -> Answer {
        let here = self.here()?;
        if address == 0 || bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        if self.host_memory.at(address, 1).is_some() {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        let piece = HostPiece { kind: Kind::Registered, length: bytes as u64, flags, here };
        self.host_memory.0.insert(address, piece);
        Ok(())
    }

    /// Forgets memory of the program.
    pub(crate) fn unregister_host(&mut self, address: u64) -> Answer {
        let registered = |kind: &Kind| matches!(kind, Kind::Registered);
        self.host_memory.remove(address, registered, Code::HOST_MEMORY_NOT_REGISTERED)
    }

    /// The piece that an address lies in.
    pub(crate) fn host_piece(&self, address: u64) -> Answer<&HostPiece> {
        self.host_memory.at(address, 1).map(|(_, piece)| piece).ok_or(Code::INVALID_VALUE)
    }
}
