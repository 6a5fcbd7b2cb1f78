//! Points between two writes of what processes share. Tests end a process at each of them; what is shipped has nothing of it.
//!
//! A build with the feature `fault-points` calls [`on_reached`]'s function at each; without it [`point!`](crate::point) only checks that the
//! point is one of the list.

macro_rules! points {
    ($($point:ident $name:literal,)*) => {
        /// Every point there is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Point {
            $(#[doc = $name] $point,)*
        }

        impl Point {
            /// All of them, with their names.
            pub const ALL: &[(Point, &str)] = &[$((Point::$point, $name),)*];
        }
    };
}

points! {
    ClaimTaken "claim-taken",
    ClaimNamed "claim-named",
    ClaimOwned "claim-owned",
    ClaimInherited "claim-inherited",
    ClaimAskedCleared "claim-asked-cleared",
    ClaimHeldCleared "claim-held-cleared",
    ReapTaken "reap-taken",
    ReapAskedCleared "reap-asked-cleared",
    ReapHeldCleared "reap-held-cleared",
    Asked "asked",
    Granted "granted",
    Withdrawn "withdrawn",
    TakenAtOnce "taken-at-once",
    Added "added",
    Released "released",
    Refused "refused",
    AllocationReserved "allocation-reserved",
    AllocationMade "allocation-made",
    AllocationNoted "allocation-noted",
    FreeUnnoted "free-unnoted",
    FreeDone "free-done",
    ContextReserved "context-reserved",
    ContextMade "context-made",
    ContextEnding "context-ending",
    GrowthReserved "growth-reserved",
    GrowthMade "growth-made",
    GrowthNoted "growth-noted",
    PoolEntered "pool-entered",
    PoolReserved "pool-reserved",
    PoolGrown "pool-grown",
    PoolKept "pool-kept",
    PoolSettling "pool-settling",
    PoolDestroyed "pool-destroyed",
    GraphReserved "graph-reserved",
    GraphBegun "graph-begun",
    GraphLaunched "graph-launched",
    GraphSettling "graph-settling",
    GraphTrimmed "graph-trimmed",
    WorkWanted "work-wanted",
    WorkWaiting "work-waiting",
    WorkAllowed "work-allowed",
    WorkCharged "work-charged",
    WorkNoted "work-noted",
    WorkStarted "work-started",
    WorkMeasured "work-measured",
    WorkCorrected "work-corrected",
    BurstPaid "burst-paid",
}

/// What happens at a point.
#[cfg(feature = "fault-points")]
mod act {
    use super::Point;
    use core::sync::atomic::{AtomicPtr, Ordering};

    static ACT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

    /// From now on this is called at every point.
    pub fn on_reached(act: fn(Point)) {
        ACT.store(act as *mut (), Ordering::Release);
    }

    /// A point was reached.
    #[allow(unsafe_code, reason = "a function in a word that begins as zero")]
    pub fn reached(point: Point) {
        let act = ACT.load(Ordering::Acquire);
        if !act.is_null() {
            // SAFETY: nothing but such a function was ever stored there.
            let act = unsafe { core::mem::transmute::<*mut (), fn(Point)>(act) };
            act(point);
        }
    }
}

#[cfg(feature = "fault-points")]
pub use act::{on_reached, reached};

/// A place between two writes of what processes share.
#[cfg(feature = "fault-points")]
#[macro_export]
macro_rules! point {
    ($point:ident) => {
        $crate::faults::reached($crate::faults::Point::$point)
    };
}

/// A place between two writes of what processes share.
#[cfg(not(feature = "fault-points"))]
#[macro_export]
macro_rules! point {
    ($point:ident) => {{
        let _: $crate::faults::Point = $crate::faults::Point::$point;
    }};
}
