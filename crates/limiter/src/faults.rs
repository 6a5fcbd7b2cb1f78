//! Ends the process at a point that its environment names, as `kill -9` would. Only in a library that is built for tests.

use crate::pages::fresh;
use carve_limiter_abi::faults::{Point, on_reached};
use core::sync::atomic::{AtomicU32, Ordering};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::{Signal, getpid, kill_process};

/// `CARVE_FAULT_POINT=NAME:TIMES`: the point, and at which time that it is reached.
const VARIABLE: &[u8] = b"CARVE_FAULT_POINT=";
const LONGEST: usize = 1 << 17;

/// One more than the number of the point, and how often it is still let pass.
static WHERE: AtomicU32 = AtomicU32::new(0);
static TIMES: AtomicU32 = AtomicU32::new(0);

/// Reads what is wanted. A name that no point has ends the process at once, so that no test takes it for one that was never reached.
pub(crate) fn arm() {
    let Some(room) = fresh(LONGEST) else { return };
    // SAFETY: that many bytes were just mapped.
    let room = unsafe { core::slice::from_raw_parts_mut(room.cast::<u8>(), LONGEST) };
    let Ok(opened) = rustix::fs::openat(CWD, c"/proc/self/environ", OFlags::RDONLY, Mode::empty()) else {
        return;
    };
    let mut length = 0;
    while let Ok(more @ 1..) = rustix::io::read(&opened, &mut room[length..]) {
        length += more;
    }
    let mut variables = room[..length].split(|&byte| byte == 0);
    let Some(wanted) = variables.find_map(|variable| variable.strip_prefix(VARIABLE)) else { return };
    let mut words = wanted.split(|&byte| byte == b':');
    let name = words.next().unwrap_or_default();
    let times = words.next().and_then(|times| core::str::from_utf8(times).ok()?.parse::<u32>().ok());
    let Some(number) = Point::ALL.iter().position(|(_, known)| known.as_bytes() == name) else {
        return end();
    };
    TIMES.store(times.unwrap_or(1), Ordering::Relaxed);
    WHERE.store(number as u32 + 1, Ordering::Relaxed);
    on_reached(reached);
}

fn reached(point: Point) {
    let wanted = WHERE.load(Ordering::Relaxed) as usize;
    if Point::ALL.get(wanted.wrapping_sub(1)).is_some_and(|(known, _)| *known == point)
        && TIMES.fetch_sub(1, Ordering::Relaxed) == 1
    {
        end();
    }
}

fn end() {
    let _ = kill_process(getpid(), Signal::KILL);
}
