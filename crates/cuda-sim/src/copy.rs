//! Copies between any two places, and filling; they take no time.

use crate::abi::HostMemory;
use crate::error::{Answer, Code};
use crate::memory::FIRST_ADDRESS;
use crate::session::Session;

/// As much as is copied at once.
const PIECE: u64 = 1 << 20;

impl Session {
    /// Copies out of memory that a kernel could read.
    pub(crate) fn read(&mut self, address: u64, to: &mut [u8]) -> Answer {
        if address < FIRST_ADDRESS {
            self.host_memory.at(address, to.len()).ok_or(Code::INVALID_VALUE)?;
            to.copy_from_slice(HostMemory::at(address).bytes(to.len())?);
            return Ok(());
        }
        if let Some((pages, offset)) = self.mapped.at(address, to.len()) {
            pages.read(offset, to);
            return Ok(());
        }
        let (start, allocation) = self.memory.allocation_at(address).ok_or(Code::INVALID_VALUE)?;
        if !allocation.pages.holds(address - start, to.len()) {
            return Err(Code::INVALID_VALUE);
        }
        allocation.pages.read(address - start, to);
        Ok(())
    }

    /// Copies into memory that a kernel could write.
    pub(crate) fn write(&mut self, address: u64, from: &[u8]) -> Answer {
        if address < FIRST_ADDRESS {
            self.host_memory.at(address, from.len()).ok_or(Code::INVALID_VALUE)?;
            HostMemory::at(address).bytes_mut(from.len())?.copy_from_slice(from);
            return Ok(());
        }
        if let Some((pages, offset)) = self.mapped.at(address, from.len()) {
            pages.write(offset, from);
            return Ok(());
        }
        let (start, allocation) = self.memory.allocation_at(address).ok_or(Code::INVALID_VALUE)?;
        if !allocation.pages.holds(address - start, from.len()) {
            return Err(Code::INVALID_VALUE);
        }
        allocation.pages.write(address - start, from);
        Ok(())
    }

    /// Copies between two places, each of which may be a device's or, where `pageable` allows it, any of the program's.
    pub(crate) fn copy(&mut self, to: Place, from: Place, bytes: u64) -> Answer {
        let mut piece = vec![0; bytes.min(PIECE) as usize];
        let mut done = 0;
        while done < bytes {
            let piece = &mut piece[..(bytes - done).min(PIECE) as usize];
            match from {
                Place::Known(address) => self.read(address + done, piece)?,
                Place::Program(address) => {
                    piece.copy_from_slice(HostMemory::at(address + done).bytes(piece.len())?);
                }
            }
            match to {
                Place::Known(address) => self.write(address + done, piece)?,
                Place::Program(address) => {
                    HostMemory::at(address + done).bytes_mut(piece.len())?.copy_from_slice(piece);
                }
            }
            done += piece.len() as u64;
        }
        Ok(())
    }

    /// Fills memory with copies of a value of one, two or four bytes.
    pub(crate) fn fill(&mut self, to: u64, value: &[u8], times: u64) -> Answer {
        let bytes = times.checked_mul(value.len() as u64).ok_or(Code::INVALID_VALUE)?;
        let piece: Vec<u8> = value.iter().copied().cycle().take(bytes.min(PIECE) as usize).collect();
        let mut done = 0;
        while done < bytes {
            let piece = &piece[..(bytes - done).min(PIECE) as usize];
            self.write(to + done, piece)?;
            done += piece.len() as u64;
        }
        Ok(())
    }
}

/// One end of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// Memory that CUDA knows.
    Known(u64),
    /// Memory of the program, whose word is taken for it.
    Program(u64),
}

impl Place {
    /// What an address means in a copy that says nothing about its ends.
    pub(crate) fn any(address: u64) -> Self {
        if address < FIRST_ADDRESS { Place::Program(address) } else { Place::Known(address) }
    }
}
