//! Which mechanism serves a claim on a GPU, why, and why not another.
//!
//! The order of strength is the one that measurements give (Klues and Chen, KubeCon 2024): performance is isolated best by
//! MIG, then MPS, then time-slicing; faults by MIG, then time-slicing, then MPS, whose clients end together; sizes are freest
//! with MPS, fixed with MIG, unenforced with time-slicing. The rules, first match first:
//!
//! 1. a whole GPU is served exclusively;
//! 2. a MIG profile by MIG, a share of one by a layer on it;
//! 3. a mechanism that is named, if the GPU has it and the isolation asked for allows it;
//! 4. isolation from other tenants by MIG, where there is none by a whole GPU;
//! 5. isolation from faults by MIG, else by the limiter, else by time-slicing for a share without a size, else by a whole GPU;
//! 6. a part with a size by MPS, else the limiter, else a whole GPU: time-slicing keeps no size;
//! 7. a share without a size by MPS if others' load must not reach it, else by time-slicing.

use carve_gpu_model::{Mebibytes, ProfileName, ProfileTable};
use std::fmt;
use thiserror::Error;

/// What must not reach a claim from its neighbours on the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Isolation {
    /// Nothing was said: neighbours are trusted.
    #[default]
    None,
    /// Their load.
    Performance,
    /// Their crashes.
    Fault,
    /// Anything: they belong to somebody else.
    Tenant,
}

/// How much a claim wants of each GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Size {
    /// All of it.
    Whole,
    /// A part of a known size.
    Part {
        /// Memory, if it is limited.
        memory: Option<Mebibytes>,
        /// Thousandths of its compute, if that is limited.
        compute: Option<u16>,
    },
    /// A share without a size.
    Share,
    /// A MIG device.
    Profile(ProfileName),
    /// A share of a MIG device.
    ShareOfProfile(ProfileName),
    /// Any MIG device.
    AnyProfile,
}

/// A mechanism for a part of a GPU or MIG device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sharing {
    /// Containers run at once under limits of CUDA's multi-process service.
    Mps,
    /// A library in the container holds it to its share.
    Limiter,
    /// Containers take turns.
    TimeSlicing,
}

/// A mechanism that a claim names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Named {
    /// MIG.
    Mig,
    /// One for parts.
    Sharing(Sharing),
}

/// What a claim needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// How much.
    pub size: Size,
    /// From what it is to be kept apart.
    pub isolation: Isolation,
    /// The mechanism it names.
    pub named: Option<Named>,
}

/// What a GPU and its node can do.
#[derive(Debug, Clone, Copy)]
pub struct Hardware<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Memory.
    pub memory: Mebibytes,
    /// CUDA compute capability; MPS limits need 7.0.
    pub compute_capability: (u8, u8),
    /// What MIG can cut it into, if it has MIG.
    pub table: Option<&'a ProfileTable>,
    /// Whether the node has a limiter.
    pub limiter: bool,
}

/// How a claim is served.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// The whole GPU.
    Exclusive,
    /// A MIG device.
    Mig(ProfileName),
    /// A part of the GPU.
    Shared(Sharing),
    /// A part of a MIG device.
    Layered(ProfileName, Sharing),
}

/// A mechanism that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub mechanism: &'static str,
    /// Why not.
    pub because: String,
}

/// A choice with its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The mechanism.
    pub way: Way,
    /// Why it.
    pub because: String,
    /// Why not the others.
    pub refused: Vec<Refused>,
}

/// No mechanism of a GPU serves a claim.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{gpu} can not serve it: {because}")]
pub struct NoMechanism {
    /// The GPU.
    pub gpu: String,
    /// Why none does, and what would.
    pub because: String,
}

impl Sharing {
    /// As it is written in output.
    pub const fn name(self) -> &'static str {
        match self {
            Sharing::Mps => "MPS",
            Sharing::Limiter => "limiter",
            Sharing::TimeSlicing => "time-slicing",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Exclusive => f.write_str("exclusive"),
            Way::Mig(profile) => write!(f, "MIG {profile}"),
            Way::Shared(sharing) => f.write_str(sharing.name()),
            Way::Layered(profile, sharing) => write!(f, "{} on MIG {profile}", sharing.name()),
        }
    }
}

const MPS_FAULTS: &str = "a fault of one MPS client ends all clients of its GPU";
const NO_LIMITS: &str = "time-slicing limits neither memory nor compute";
const FIXED_SIZES: &str = "MIG devices come in fixed sizes and take a GPU out of other use";
const NO_MIG: &str = "this GPU has no MIG";
const NO_LIMITER: &str = "this node has no limiter";
const ONE_OWNER: &str = "a whole GPU for a part of one is the dearest way";

/// Chooses a mechanism on a GPU.
pub fn choose(needs: &Needs, gpu: &Hardware<'_>) -> Result<Choice, NoMechanism> {
    let chooser = Chooser { needs, gpu };
    match &needs.size {
        Size::Whole => chooser.take(Way::Exclusive, "it asks for the whole GPU", &[]),
        Size::Profile(profile) => {
            let profile = chooser.known(profile)?;
            chooser.take(Way::Mig(profile), "it asks for this MIG device", &[])
        }
        Size::AnyProfile => {
            let profile = chooser.smallest(None, None)?;
            chooser.take(Way::Mig(profile), "it asks for any MIG device, and this is the smallest", &[])
        }
        Size::ShareOfProfile(profile) => chooser.layered(profile),
        Size::Part { .. } | Size::Share => chooser.part(),
    }
}

struct Chooser<'a> {
    needs: &'a Needs,
    gpu: &'a Hardware<'a>,
}

impl Chooser<'_> {
    fn take(&self, way: Way, because: &str, refused: &[(&'static str, &str)]) -> Result<Choice, NoMechanism> {
        let refused = refused
            .iter()
            .map(|(mechanism, because)| Refused { mechanism, because: (*because).to_owned() })
            .collect();
        Ok(Choice { way, because: because.to_owned(), refused })
    }

    fn none(&self, because: impl Into<String>) -> NoMechanism {
        NoMechanism { gpu: self.gpu.name.to_owned(), because: because.into() }
    }

    fn known(&self, profile: &ProfileName) -> Result<ProfileName, NoMechanism> {
        let table = self.gpu.table.ok_or_else(|| self.none(NO_MIG))?;
        match table.by_name(profile) {
            Ok(_) => Ok(profile.clone()),
            Err(unknown) => Err(self.none(match unknown.nearest {
                Some(nearest) => format!("it has no profile {profile}; the nearest is {nearest}"),
                None => format!("it has no profile {profile}"),
            })),
        }
    }

    /// The smallest profile that holds so much. Those with extra engines are for who names them.
    fn smallest(&self, memory: Option<Mebibytes>, compute: Option<u16>) -> Result<ProfileName, NoMechanism> {
        let table = self.gpu.table.ok_or_else(|| self.none(NO_MIG))?;
        let holds = |profile: &&carve_gpu_model::GpuProfile| {
            let known = profile.memory.map(|fact| fact.value);
            let enough = memory.is_none_or(|asked| known.is_some_and(|known| known >= asked));
            let slices = u32::from(profile.slices) * 1000;
            let fast =
                compute.is_none_or(|asked| slices >= u32::from(asked) * u32::from(table.compute_slices()));
            profile.name.attributes().is_empty() && enough && fast
        };
        let found =
            table.profiles().iter().filter(holds).min_by_key(|profile| (profile.slices, profile.size()));
        found.map(|profile| profile.name.clone()).ok_or_else(|| self.none("no MIG profile is large enough"))
    }

    /// The smallest MIG device that holds what is asked for.
    fn mig(&self) -> Result<Way, NoMechanism> {
        match &self.needs.size {
            Size::Part { memory, compute } => self.smallest(*memory, *compute).map(Way::Mig),
            _ => self.smallest(None, None).map(Way::Mig),
        }
    }

    fn mps(&self) -> Result<Way, NoMechanism> {
        if self.gpu.compute_capability < (7, 0) {
            return Err(self.none("MPS can not limit clients before the Volta generation"));
        }
        Ok(Way::Shared(Sharing::Mps))
    }

    fn limiter(&self) -> Result<Way, NoMechanism> {
        if self.gpu.limiter { Ok(Way::Shared(Sharing::Limiter)) } else { Err(self.none(NO_LIMITER)) }
    }

    fn is_sized(&self) -> bool {
        matches!(self.needs.size, Size::Part { .. })
    }

    /// Too much for the GPU, whatever the mechanism.
    fn fits(&self) -> Result<(), NoMechanism> {
        match self.needs.size {
            Size::Part { memory: Some(memory), .. } if memory > self.gpu.memory => {
                Err(self.none(format!("it asks for {memory} of GPU memory, and it has {}", self.gpu.memory)))
            }
            _ => Ok(()),
        }
    }

    fn part(&self) -> Result<Choice, NoMechanism> {
        self.fits()?;
        if let Some(named) = self.needs.named {
            return self.named(named);
        }
        match self.needs.isolation {
            Isolation::Tenant => self.apart("it must be kept apart from other tenants"),
            Isolation::Fault => self.fault(),
            Isolation::Performance | Isolation::None if self.is_sized() => self.sized(),
            Isolation::Performance => match self.mps() {
                Ok(way) => self.take(
                    way,
                    "others' load must not reach it, and MPS runs clients side by side with little overhead",
                    &[("time-slicing", "every turn of another is a wait"), ("MIG", FIXED_SIZES)],
                ),
                Err(_) => self.apart("others' load must not reach it"),
            },
            Isolation::None => self.take(
                Way::Shared(Sharing::TimeSlicing),
                "it asks for a share without a size, and taking turns is the simplest way to give one",
                &[("MPS", MPS_FAULTS), ("MIG", FIXED_SIZES), ("exclusive", ONE_OWNER)],
            ),
        }
    }

    /// MIG, or the whole GPU.
    fn apart(&self, why: &str) -> Result<Choice, NoMechanism> {
        let shared = [
            ("MPS", MPS_FAULTS),
            ("limiter", "it runs inside the process it limits"),
            ("time-slicing", NO_LIMITS),
        ];
        match self.mig() {
            Ok(way) => self.take(
                way,
                &format!("{why}, and MIG separates memory, compute and faults in hardware"),
                &[shared[0], shared[1], shared[2], ("exclusive", ONE_OWNER)],
            ),
            Err(none) => self.take(
                Way::Exclusive,
                &format!("{why}, and without MIG only a whole GPU does that"),
                &[("MIG", &none.because), shared[0], shared[1], shared[2]],
            ),
        }
    }

    fn fault(&self) -> Result<Choice, NoMechanism> {
        let why = "others' crashes must not reach it";
        if self.mig().is_ok() {
            return self.apart(why);
        }
        match self.limiter() {
            Ok(way) => self.take(
                way,
                &format!("{why}; under the limiter every container keeps a context of its own"),
                &[("MIG", NO_MIG), ("MPS", MPS_FAULTS), ("time-slicing", NO_LIMITS)],
            ),
            Err(_) if !self.is_sized() => self.take(
                Way::Shared(Sharing::TimeSlicing),
                &format!("{why}; containers that take turns have contexts of their own"),
                &[("MIG", NO_MIG), ("MPS", MPS_FAULTS), ("limiter", NO_LIMITER)],
            ),
            Err(_) => self.apart(why),
        }
    }

    fn sized(&self) -> Result<Choice, NoMechanism> {
        if let Ok(way) = self.mps() {
            return self.take(
                way,
                "it asks for a size, and the driver enforces MPS limits of any size",
                &[("MIG", FIXED_SIZES), ("time-slicing", NO_LIMITS), ("exclusive", ONE_OWNER)],
            );
        }
        let old = "MPS can not limit clients before the Volta generation";
        match self.limiter() {
            Ok(way) => self.take(
                way,
                "it asks for a size, and the limiter enforces one where MPS can not",
                &[("MPS", old), ("MIG", NO_MIG), ("time-slicing", NO_LIMITS)],
            ),
            Err(_) => self.take(
                Way::Exclusive,
                "it asks for a size that nothing on this GPU enforces, so it gets the whole GPU",
                &[("MPS", old), ("MIG", NO_MIG), ("limiter", NO_LIMITER), ("time-slicing", NO_LIMITS)],
            ),
        }
    }

    fn named(&self, named: Named) -> Result<Choice, NoMechanism> {
        let refuse = |why: &str| Err(self.none(format!("it names {}, but {why}", name(named))));
        let tenant = self.needs.isolation == Isolation::Tenant;
        let fault = self.needs.isolation >= Isolation::Fault;
        match named {
            Named::Mig => {
                self.take(self.mig()?, "it names MIG, and this is the smallest device that holds it", &[])
            }
            Named::Sharing(Sharing::Mps) if fault => refuse(MPS_FAULTS),
            Named::Sharing(_) if tenant => refuse("only MIG or a whole GPU keeps tenants apart"),
            Named::Sharing(Sharing::Mps) => self.take(self.mps()?, "it names MPS", &[]),
            Named::Sharing(Sharing::Limiter) => match self.limiter() {
                Ok(way) => self.take(way, "it names the limiter", &[]),
                // What was asked for is a size; who enforces it is a detail of where the manifest comes from.
                Err(none) => self.sized().map(|mut choice| {
                    choice.refused.push(Refused { mechanism: "limiter", because: none.because });
                    choice
                }),
            },
            Named::Sharing(Sharing::TimeSlicing) if self.is_sized() => refuse(NO_LIMITS),
            Named::Sharing(Sharing::TimeSlicing) => {
                self.take(Way::Shared(Sharing::TimeSlicing), "it names time-slicing", &[])
            }
        }
    }

    fn layered(&self, profile: &ProfileName) -> Result<Choice, NoMechanism> {
        let profile = self.known(profile)?;
        if self.needs.isolation == Isolation::Tenant {
            return Err(self.none("a share of a MIG device has neighbours; ask for the device itself"));
        }
        let sharing = match (self.needs.named, self.needs.isolation) {
            (Some(Named::Sharing(named)), Isolation::None | Isolation::Performance) => named,
            (_, Isolation::Performance) => Sharing::Mps,
            _ => Sharing::TimeSlicing,
        };
        let because = format!("it asks for a share of a MIG device, which {} gives", sharing.name());
        self.take(
            Way::Layered(profile, sharing),
            &because,
            &[("MIG", "the device alone would be more than it asks for")],
        )
    }
}

fn name(named: Named) -> &'static str {
    match named {
        Named::Mig => "MIG",
        Named::Sharing(sharing) => sharing.name(),
    }
}
