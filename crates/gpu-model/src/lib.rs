//! What a GPU is, what may be cut out of it, and whether a cut is legal.
//!
//! Everything here is plain data and arithmetic: no IO, no clock, no environment. A [`ProfileTable`] holds what one
//! GPU offers, either from the product table ([`products`]) or as the hardware reported it, which always wins.
//! [`ProfileTable::check`] is the one function that says whether a set of instances is legal and why not.
#![warn(clippy::disallowed_methods)]

mod apportion;
mod compute;
mod enumerate;
mod fact;
mod geometry;
mod ids;
mod legality;
mod mechanism;
mod placement;
pub mod products;
mod profile;
mod profile_name;
mod slot_choice;
mod table;
mod units;
pub mod xid;

pub use apportion::apportion;
pub use compute::{ComputeProfile, ComputeProfileIndex};
pub use enumerate::{Census, MaximalGeometry};
pub use fact::{Evidence, Fact};
pub use geometry::{Geometry, GeometryParseError};
pub use ids::{
    CapabilityMinor, ComputeInstanceId, GpuIndex, GpuInstanceId, GpuUuid, MigUuid, PciAddress,
    PciAddressParseError, PciId, PciIdParseError,
};
pub use legality::Illegal;
pub use mechanism::{Isolation, Mechanism, Mechanisms, Sharing};
pub use placement::{Placement, SlotMask};
pub use products::{Architecture, ModeSwitch, Product};
pub use profile::{Engine, Engines, GpuProfile, ProfileId, ProfileIndex};
pub use profile_name::{AttributeError, FieldError, ProfileName, ProfileNameError};
pub use table::{Placed, ProfileSlot, ProfileTable, ReportedProfile, UnknownProfile};
pub use units::{Bytes, Mebibytes};
pub use xid::{Xid, XidClass, XidEntry};
