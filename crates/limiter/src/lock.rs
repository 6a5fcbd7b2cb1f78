//! A lock that needs nothing but a word, for memory that begins as zeros.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

/// Something that one thread at a time may touch. All zeros are a lock that is open.
#[repr(C)]
pub(crate) struct Lock<T> {
    taken: AtomicU32,
    inside: UnsafeCell<T>,
}

// SAFETY: whoever touches what is inside holds the lock.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The lock, taken.
pub(crate) struct Taken<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    /// Takes it, and waits for as long as another has it.
    pub(crate) fn take(&self) -> Taken<'_, T> {
        let mut times = 0u32;
        while self.taken.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            times = times.wrapping_add(1);
            if times.is_multiple_of(64) {
                rustix::thread::sched_yield();
            } else {
                core::hint::spin_loop();
            }
        }
        Taken(self)
    }
}

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held for as long as this exists.
        unsafe { &*self.0.inside.get() }
    }
}

impl<T> DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held for as long as this exists.
        unsafe { &mut *self.0.inside.get() }
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        self.0.taken.store(0, Ordering::Release);
    }
}
