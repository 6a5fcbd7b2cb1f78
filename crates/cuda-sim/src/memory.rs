//! Device memory: what is free, what is allocated, and what every kind of allocation takes.
//!
//! The driver hands memory out in blocks of 2 MiB: an allocation of 1 MiB or more has blocks of its own, smaller ones
//! share one. What pools, mapped memory and arrays take is kept in the same book. Managed memory takes nothing here, as
//! the real one takes nothing before a kernel touches it.

use crate::blocks::{Block, SIZE as BLOCK};
use crate::context::Here;
use crate::error::{Answer, Code};
use crate::pages::Pages;
use crate::session::Session;
use crate::settings::Fault;
use carve_gpu_model::Mebibytes;
use std::collections::BTreeMap;

/// Allocations of at least this have blocks of their own.
const LARGE: u64 = 1 << 20;

/// Addresses of devices begin here, far from those of the process.
pub(crate) const FIRST_ADDRESS: u64 = 1 << 60;

/// Those that have 32 bits begin here. Programs of today have nothing so low.
const FIRST_BELOW: u64 = 16 * BLOCK;

/// What the process has allocated on all devices.
#[derive(Debug)]
pub(crate) struct Memory {
    next_address: u64,
    /// The same for addresses that have 32 bits.
    next_below: u64,
    /// By device: contexts, blocks, pools and physical memory.
    taken: BTreeMap<u32, u64>,
    pub(crate) allocations: BTreeMap<u64, Allocation>,
    blocks: BTreeMap<u64, (Here, Block)>,
    /// Allocations that were asked for since the start, for the fault.
    asked: u64,
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) here: Here,
    pub(crate) origin: Origin,
    pub(crate) pages: Pages,
}

/// Where an allocation's memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Blocks of its own.
    Blocks,
    /// The block that begins at an address, together with others.
    Shared(u64),
    /// A pool.
    Pool(u32),
    /// The pool that graphs of a device have.
    Graphs,
}

impl Default for Memory {
    fn default() -> Self {
        Memory {
            next_address: FIRST_ADDRESS,
            next_below: FIRST_BELOW,
            taken: BTreeMap::new(),
            allocations: BTreeMap::new(),
            blocks: BTreeMap::new(),
            asked: 0,
        }
    }
}

impl Memory {
    /// Addresses for so many bytes, with a gap behind, so that what runs over the end hits nothing.
    pub(crate) fn addresses(&mut self, bytes: u64, alignment: u64) -> Answer<u64> {
        let address = self.next_address.checked_next_multiple_of(alignment.max(BLOCK));
        let address = address.ok_or(Code::OUT_OF_MEMORY)?;
        let end = address.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(BLOCK));
        self.next_address = end.and_then(|end| end.checked_add(BLOCK)).ok_or(Code::OUT_OF_MEMORY)?;
        Ok(address)
    }

    /// The allocation that an address lies in, and where it begins.
    pub(crate) fn allocation_at(&mut self, address: u64) -> Option<(u64, &mut Allocation)> {
        let (start, allocation) = self.allocations.range_mut(..=address).next_back()?;
        allocation.pages.holds(address - start, 1).then_some((*start, allocation))
    }
}

/// What so many bytes take in whole blocks.
pub(crate) fn blocks(bytes: u64) -> Answer<u64> {
    bytes.checked_next_multiple_of(BLOCK).ok_or(Code::OUT_OF_MEMORY)
}

impl Session {
    /// What can still be allocated on a device: what nobody holds of it, or of the client's limit if that is less.
    pub(crate) fn free(&self, ordinal: u32) -> Answer<u64> {
        let device = self.devices.get(ordinal as usize).ok_or(Code::INVALID_DEVICE)?;
        let others =
            self.held_by_others(device)?.saturating_add(self.board.held_by_others(device.memory_key()));
        let limit = self.limits.pinned_mib.map_or(u64::MAX, |limit| Mebibytes(limit).bytes().0);
        let taken = self.memory.taken.get(&ordinal).copied().unwrap_or_default();
        Ok(device.memory.saturating_sub(others).min(limit).saturating_sub(taken))
    }

    /// Free and total bytes of the current context's device. A client's limit shows in what is free alone.
    pub(crate) fn memory_info(&mut self) -> Answer<(usize, usize)> {
        let here = self.here()?;
        let total = self.devices.get(here.device as usize).ok_or(Code::INVALID_DEVICE)?.memory;
        Ok((self.free(here.device)? as usize, total as usize))
    }

    /// Takes memory of a device, if there is so much.
    pub(crate) fn charge(&mut self, device: u32, bytes: u64) -> Answer {
        if bytes > self.free(device)? {
            return Err(Code::OUT_OF_MEMORY);
        }
        self.write_down(device, |taken| taken.saturating_add(bytes))?;
        // Another process may have taken the same room at the same time; then both see too much and both step back.
        let key = self.devices.get(device as usize).ok_or(Code::INVALID_DEVICE)?.memory_key();
        let total = self.devices.get(device as usize).map_or(0, |device| device.memory);
        let taken = self.memory.taken.get(&device).copied().unwrap_or_default();
        if self.board.held_by_others(key).saturating_add(taken) > total {
            self.refund(device, bytes);
            return Err(Code::OUT_OF_MEMORY);
        }
        Ok(())
    }

    /// Gives memory of a device back.
    pub(crate) fn refund(&mut self, device: u32, bytes: u64) {
        // Less than before always fits on the board.
        let _ = self.write_down(device, |taken| taken.saturating_sub(bytes));
    }

    fn write_down(&mut self, device: u32, change: impl FnOnce(u64) -> u64) -> Answer {
        let key = self.devices.get(device as usize).ok_or(Code::INVALID_DEVICE)?.memory_key();
        let taken = self.memory.taken.entry(device).or_default();
        let next = change(*taken);
        if !self.board.hold(key, next) {
            return Err(Code::OUT_OF_MEMORY);
        }
        *taken = next;
        Ok(())
    }

    /// Counts an allocation that a program asks for; the one that is to fail does.
    pub(crate) fn count_allocation(&mut self) -> Answer {
        self.memory.asked += 1;
        let fails = self.fault == Some(Fault::AllocationFails(self.memory.asked));
        if fails { Err(Code::OUT_OF_MEMORY) } else { Ok(()) }
    }

    /// Allocates in the current context.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Answer<u64> {
        let here = self.here()?;
        self.refuse_while_capturing()?;
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        self.count_allocation()?;
        self.place(here, bytes as u64)
    }

    /// Allocates in the current context at an address that has 32 bits, always in blocks of its own.
    pub(crate) fn allocate_below(&mut self, bytes: usize) -> Answer<u64> {
        let here = self.here()?;
        self.refuse_while_capturing()?;
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        self.count_allocation()?;
        let (address, size) = (self.memory.next_below, blocks(bytes as u64)?);
        let next = address.saturating_add(size).saturating_add(BLOCK);
        if next > u64::from(u32::MAX) {
            return Err(Code::OUT_OF_MEMORY);
        }
        self.charge(here.device, size)?;
        self.memory.next_below = next;
        let allocation = Allocation { here, origin: Origin::Blocks, pages: Pages::new(bytes as u64) };
        self.memory.allocations.insert(address, allocation);
        Ok(address)
    }

    /// Finds room for so many bytes, in a shared block or in blocks of their own.
    pub(crate) fn place(&mut self, here: Here, bytes: u64) -> Answer<u64> {
        let (address, origin) = if bytes < LARGE {
            let (block, address) = self.place_in_shared(here, bytes)?;
            (address, Origin::Shared(block))
        } else {
            self.charge(here.device, blocks(bytes)?)?;
            (self.memory.addresses(bytes, BLOCK)?, Origin::Blocks)
        };
        self.memory.allocations.insert(address, Allocation { here, origin, pages: Pages::new(bytes) });
        Ok(address)
    }

    fn place_in_shared(&mut self, here: Here, bytes: u64) -> Answer<(u64, u64)> {
        let own = self.memory.blocks.iter_mut().filter(|(_, (owner, _))| *owner == here);
        for (start, (_, block)) in own {
            if let Some(offset) = block.place(bytes) {
                return Ok((*start, start + offset));
            }
        }
        self.charge(here.device, BLOCK)?;
        let start = self.memory.addresses(BLOCK, BLOCK)?;
        let mut block = Block::default();
        let offset = block.place(bytes).ok_or(Code::UNKNOWN)?;
        self.memory.blocks.insert(start, (here, block));
        Ok((start, start + offset))
    }

    /// Gives an allocation back, however it was made; address 0 is no allocation and no mistake.
    pub(crate) fn free_allocation(&mut self, address: u64) -> Answer {
        self.here()?;
        self.refuse_while_capturing()?;
        if address == 0 {
            return Ok(());
        }
        if self.host_memory.free_managed(address) {
            return Ok(());
        }
        self.take_back(address)
    }

    /// The same, without asking who wants it.
    pub(crate) fn take_back(&mut self, address: u64) -> Answer {
        let allocation = self.memory.allocations.remove(&address).ok_or(Code::INVALID_VALUE)?;
        let (device, bytes) = (allocation.here.device, allocation.pages.length());
        match allocation.origin {
            Origin::Blocks => self.refund(device, blocks(bytes)?),
            Origin::Shared(start) => {
                let Some((_, block)) = self.memory.blocks.get_mut(&start) else { return Err(Code::UNKNOWN) };
                block.take_back(address - start);
                if block.is_empty() {
                    self.memory.blocks.remove(&start);
                    self.refund(device, BLOCK);
                }
            }
            Origin::Pool(pool) => self.give_to_pool(pool, bytes),
            Origin::Graphs => self.give_to_graphs(device, bytes),
        }
        Ok(())
    }

    /// A context has ended.
    pub(crate) fn free_all_of(&mut self, context: u32) {
        let allocations = self.memory.allocations.iter();
        let own = allocations.filter(|(_, allocation)| allocation.here.context == context);
        let addresses: Vec<u64> = own.map(|(address, _)| *address).collect();
        for address in addresses {
            // It was found a moment ago, so it is there.
            let _ = self.take_back(address);
        }
    }
}
