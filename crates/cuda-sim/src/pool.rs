//! Memory pools: they take memory of a device in steps, hand it out, and keep what comes back until they are trimmed.

use crate::context::Here;
use crate::error::{Answer, Code};
use crate::handle::{Handle, Numbered, Thing};
use crate::memory::{Allocation, Origin, blocks};
use crate::pages::Pages;
use crate::session::Session;
use crate::settings::Fault;
use crate::structs::{Location, PoolProperties};
use std::collections::BTreeMap;
use std::ffi::c_int;

/// Pools grow and shrink in steps of this.
const STEP: u64 = 32 << 20;

/// Allocations from a pool take multiples of this.
const GRAIN: u64 = 512;

/// What a pool has taken and handed out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) reserved: u64,
    pub(crate) reserved_high: u64,
    pub(crate) used: u64,
    pub(crate) used_high: u64,
}

impl Level {
    /// How much more of the device must be reserved before so many bytes can be handed out.
    fn missing(&self, bytes: u64) -> Answer<u64> {
        let used = self.used.checked_add(bytes).ok_or(Code::OUT_OF_MEMORY)?;
        let beyond = used.saturating_sub(self.reserved);
        beyond.checked_next_multiple_of(STEP).ok_or(Code::OUT_OF_MEMORY)
    }

    fn hand_out(&mut self, bytes: u64, missing: u64) {
        self.reserved += missing;
        self.used += bytes;
        self.reserved_high = self.reserved_high.max(self.reserved);
        self.used_high = self.used_high.max(self.used);
    }

    /// Lets go of what is not handed out, but for so much. Answers what was let go.
    fn trim(&mut self, keep: u64) -> u64 {
        let least = self.used.max(keep).div_ceil(STEP).saturating_mul(STEP);
        let released = self.reserved.saturating_sub(least);
        self.reserved -= released;
        released
    }
}

/// A pool.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) device: u32,
    pub(crate) level: Level,
    /// It may not take more than this.
    most: u64,
    /// Attributes that are kept and change nothing: three about reuse and the threshold for releasing.
    settings: BTreeMap<c_int, u64>,
    default: bool,
}

/// All pools of the process.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    all: Numbered<Pool>,
    defaults: BTreeMap<u32, u32>,
    current: BTreeMap<u32, u32>,
    graphs: BTreeMap<u32, Level>,
}

/// What takes multiples of the grain.
fn grains(bytes: u64) -> u64 {
    bytes.div_ceil(GRAIN).saturating_mul(GRAIN)
}

impl Session {
    /// The number of a pool that C names.
    pub(crate) fn pool_number(&self, pool: Handle) -> Answer<u32> {
        match pool.thing() {
            Ok(Thing::Pool(number)) if self.pools.all.get(number).is_ok() => Ok(number),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// The pool that a device has from the start.
    pub(crate) fn default_pool(&mut self, ordinal: c_int) -> Answer<u32> {
        let device = self.ordinal(ordinal)?;
        if let Some(number) = self.pools.defaults.get(&device) {
            return Ok(*number);
        }
        let pool = Pool {
            device,
            level: Level::default(),
            most: u64::MAX,
            settings: BTreeMap::new(),
            default: true,
        };
        let number = self.pools.all.add(pool);
        self.pools.defaults.insert(device, number);
        Ok(number)
    }

    /// The pool that a device's allocations come from.
    pub(crate) fn current_pool(&mut self, ordinal: c_int) -> Answer<u32> {
        let device = self.ordinal(ordinal)?;
        match self.pools.current.get(&device) {
            Some(number) => Ok(*number),
            None => self.default_pool(ordinal),
        }
    }

    /// Makes a pool the one that a device's allocations come from.
    pub(crate) fn set_current_pool(&mut self, ordinal: c_int, pool: Handle) -> Answer {
        let (device, number) = (self.ordinal(ordinal)?, self.pool_number(pool)?);
        if self.pools.all.get(number)?.device != device {
            return Err(Code::INVALID_DEVICE);
        }
        self.pools.current.insert(device, number);
        Ok(())
    }

    /// Makes a pool on a device.
    pub(crate) fn create_pool(&mut self, properties: PoolProperties) -> Answer<Handle> {
        if properties.location.kind != Location::DEVICE {
            return Err(Code::NOT_SUPPORTED);
        }
        let device = self.ordinal(properties.location.number)?;
        let most = if properties.most == 0 { u64::MAX } else { properties.most as u64 };
        let pool = Pool { device, level: Level::default(), most, settings: BTreeMap::new(), default: false };
        Ok(Handle::of(Thing::Pool(self.pools.all.add(pool))))
    }

    /// Ends a pool; the default one stays. What is still handed out comes back to nobody.
    pub(crate) fn destroy_pool(&mut self, pool: Handle) -> Answer {
        let number = self.pool_number(pool)?;
        if self.pools.all.get(number)?.default {
            return Err(Code::INVALID_VALUE);
        }
        let pool = self.pools.all.remove(number)?;
        self.pools.current.retain(|_, current| *current != number);
        self.memory.allocations.retain(|_, allocation| allocation.origin != Origin::Pool(number));
        self.refund(pool.device, pool.level.reserved);
        Ok(())
    }

    /// Allocates from a pool, or from the current one.
    pub(crate) fn allocate_from_pool(&mut self, pool: Option<Handle>, bytes: usize) -> Answer<u64> {
        let here = self.here()?;
        let number = match pool {
            Some(pool) => self.pool_number(pool)?,
            None => self.current_pool(here.device as c_int)?,
        };
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        self.count_allocation()?;
        let pool = self.pools.all.get(number)?;
        let (device, size) = (pool.device, grains(bytes as u64));
        let missing = match self.fault {
            Some(Fault::PoolsInPieces) => blocks(size)?,
            _ => pool.level.missing(size)?,
        };
        if missing > 0 && pool.level.reserved.saturating_add(missing) > pool.most {
            return Err(Code::OUT_OF_MEMORY);
        }
        self.charge(device, missing)?;
        self.pools.all.get_mut(number)?.level.hand_out(size, missing);
        let address = self.memory.addresses(size, GRAIN)?;
        let here = Here { context: here.context, device };
        let allocation = Allocation { here, origin: Origin::Pool(number), pages: Pages::new(bytes as u64) };
        self.memory.allocations.insert(address, allocation);
        Ok(address)
    }

    /// An allocation comes back to its pool, which keeps the memory.
    pub(crate) fn give_to_pool(&mut self, number: u32, bytes: u64) {
        if let Ok(pool) = self.pools.all.get_mut(number) {
            pool.level.used = pool.level.used.saturating_sub(grains(bytes));
        }
    }

    /// Lets a pool give memory back to the device.
    pub(crate) fn trim_pool(&mut self, pool: Handle, keep: usize) -> Answer {
        let number = self.pool_number(pool)?;
        let pool = self.pools.all.get_mut(number)?;
        let (device, released) = (pool.device, pool.level.trim(keep as u64));
        self.refund(device, released);
        Ok(())
    }

    /// One number about a pool, and whether C has 32 bits for it alone.
    pub(crate) fn pool_attribute(&self, pool: Handle, attribute: c_int) -> Answer<(u64, bool)> {
        let pool = self.pools.all.get(self.pool_number(pool)?)?;
        let level = pool.level;
        Ok(match attribute {
            1..=3 => (pool.settings.get(&attribute).copied().unwrap_or(1), true),
            4 => (pool.settings.get(&attribute).copied().unwrap_or(0), false),
            5 => (level.reserved, false),
            6 => (level.reserved_high, false),
            7 => (level.used, false),
            8 => (level.used_high, false),
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    /// Changes one: high marks can only be reset.
    pub(crate) fn set_pool_attribute(&mut self, pool: Handle, attribute: c_int, value: u64) -> Answer {
        let number = self.pool_number(pool)?;
        let pool = self.pools.all.get_mut(number)?;
        match attribute {
            1..=4 => {
                pool.settings.insert(attribute, value);
            }
            6 if value == 0 => pool.level.reserved_high = pool.level.reserved,
            8 if value == 0 => pool.level.used_high = pool.level.used,
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    /// What graphs of a device have taken and use.
    pub(crate) fn graph_level(&self, ordinal: c_int) -> Answer<Level> {
        Ok(self.pools.graphs.get(&self.ordinal(ordinal)?).copied().unwrap_or_default())
    }

    /// A graph that runs allocates at an address that was promised when it was made.
    pub(crate) fn allocate_for_graph(
        &mut self,
        context: u32,
        device: u32,
        address: u64,
        bytes: u64,
    ) -> Answer {
        if self.memory.allocations.contains_key(&address) {
            // The graph ran before, and nobody freed what it allocated.
            return Err(Code::INVALID_VALUE);
        }
        self.count_allocation()?;
        let size = grains(bytes);
        let missing = self.pools.graphs.entry(device).or_default().missing(size)?;
        self.charge(device, missing)?;
        self.pools.graphs.entry(device).or_default().hand_out(size, missing);
        let here = Here { context, device };
        let allocation = Allocation { here, origin: Origin::Graphs, pages: Pages::new(bytes) };
        self.memory.allocations.insert(address, allocation);
        Ok(())
    }

    /// Reserves what graphs will need, unless they have as much to spare.
    pub(crate) fn reserve_for_graphs(&mut self, device: u32, bytes: u64) -> Answer {
        let missing = self.pools.graphs.entry(device).or_default().missing(grains(bytes))?;
        self.charge(device, missing)?;
        self.pools.graphs.entry(device).or_default().hand_out(0, missing);
        Ok(())
    }

    /// What a graph allocated comes back.
    pub(crate) fn give_to_graphs(&mut self, device: u32, bytes: u64) {
        let level = self.pools.graphs.entry(device).or_default();
        level.used = level.used.saturating_sub(grains(bytes));
    }

    /// Lets go of what graphs keep and do not use.
    pub(crate) fn trim_graphs(&mut self, ordinal: c_int) -> Answer {
        let device = self.ordinal(ordinal)?;
        let released = self.pools.graphs.entry(device).or_default().trim(0);
        self.refund(device, released);
        Ok(())
    }

    /// Resets a high mark: 1 of what is used, 3 of what is reserved.
    pub(crate) fn reset_graph_high(&mut self, ordinal: c_int, attribute: c_int) -> Answer {
        let device = self.ordinal(ordinal)?;
        let level = self.pools.graphs.entry(device).or_default();
        match attribute {
            1 => level.used_high = level.used,
            3 => level.reserved_high = level.reserved,
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    /// The last context of a device has ended: nothing of it is kept.
    pub(crate) fn forget_pools(&mut self, device: u32) {
        let mut released = self.pools.graphs.remove(&device).unwrap_or_default().reserved;
        for (_, pool) in self.pools.all.iter_mut().filter(|(_, pool)| pool.device == device) {
            released += pool.level.reserved;
            pool.level = Level::default();
        }
        self.refund(device, released);
    }
}

#[cfg(test)]
mod tests {
    use super::{Level, STEP};

    #[test]
    fn a_pool_grows_in_steps_and_keeps_what_comes_back_until_it_is_trimmed() {
        let mut level = Level::default();
        assert_eq!(level.missing(1).unwrap(), STEP);
        level.hand_out(512, STEP);
        assert_eq!(level.missing(STEP - 512).unwrap(), 0);
        assert_eq!(level.missing(STEP).unwrap(), STEP);
        level.hand_out(STEP, STEP);
        level.used = 0;
        assert_eq!((level.reserved, level.used_high), (2 * STEP, STEP + 512));
        assert_eq!(level.trim(1), STEP, "one byte is kept, in its step");
        assert_eq!((level.trim(0), level.reserved, level.reserved_high), (STEP, 0, 2 * STEP));
        assert!(level.missing(u64::MAX).is_err());
    }
}
