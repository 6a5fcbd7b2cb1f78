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
//!
//! A mechanism that the node does not offer is passed over, and where that decides, the reason says so.

use carve_gpu_model::{Isolation, Mebibytes, Mechanism, Mechanisms, ProfileName, ProfileTable, Sharing};
use std::fmt;
use thiserror::Error;

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

/// What a claim needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// How much.
    pub size: Size,
    /// From what it is to be kept apart.
    pub isolation: Isolation,
    /// The mechanism it names.
    pub named: Option<Mechanism>,
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
    /// The mechanisms that its node offers. A whole GPU is always to be had.
    pub mechanisms: Mechanisms,
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
const NO_LIMITER: &str = "the cluster has no limiter";
const MIG_OFF: &str = "the cluster does not offer MIG";
const MPS_OFF: &str = "the cluster does not offer MPS";
const TURNS_OFF: &str = "the cluster does not offer time-slicing";
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

    fn offers(&self, mechanism: Mechanism) -> bool {
        self.gpu.mechanisms.contains(mechanism)
    }

    /// What MIG can cut the GPU into.
    fn table(&self) -> Result<&ProfileTable, NoMechanism> {
        let table = self.gpu.table.ok_or_else(|| self.none(NO_MIG))?;
        if self.offers(Mechanism::Mig) { Ok(table) } else { Err(self.none(MIG_OFF)) }
    }

    fn known(&self, profile: &ProfileName) -> Result<ProfileName, NoMechanism> {
        let table = self.table()?;
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
        let table = self.table()?;
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
        if !self.offers(Mechanism::Mps) {
            return Err(self.none(MPS_OFF));
        }
        if self.gpu.compute_capability < (7, 0) {
            return Err(self.none("MPS can not limit clients before the Volta generation"));
        }
        Ok(Way::Shared(Sharing::Mps))
    }

    fn limiter(&self) -> Result<Way, NoMechanism> {
        let offered = self.offers(Mechanism::Limiter);
        if offered { Ok(Way::Shared(Sharing::Limiter)) } else { Err(self.none(NO_LIMITER)) }
    }

    fn turns(&self) -> Result<Way, NoMechanism> {
        let offered = self.offers(Mechanism::TimeSlicing);
        if offered { Ok(Way::Shared(Sharing::TimeSlicing)) } else { Err(self.none(TURNS_OFF)) }
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
        self.unnamed()
    }

    /// A part for which no mechanism is named.
    fn unnamed(&self) -> Result<Choice, NoMechanism> {
        match self.needs.isolation {
            Isolation::Tenant => self.apart("it must be kept apart from other tenants"),
            Isolation::Fault => self.fault(),
            Isolation::Performance | Isolation::Unstated if self.is_sized() => self.sized(),
            Isolation::Performance => match self.mps() {
                Ok(way) => self.take(
                    way,
                    "others' load must not reach it, and MPS runs clients side by side with little overhead",
                    &[("time-slicing", "every turn of another is a wait"), ("MIG", FIXED_SIZES)],
                ),
                Err(_) => self.apart("others' load must not reach it"),
            },
            Isolation::Unstated => match self.turns() {
                Ok(way) => self.take(
                    way,
                    "it asks for a share without a size, and taking turns is the simplest way to give one",
                    &[("MPS", MPS_FAULTS), ("MIG", FIXED_SIZES), ("exclusive", ONE_OWNER)],
                ),
                Err(none) => {
                    let way = self.mps().or_else(|_| self.limiter()).unwrap_or(Way::Exclusive);
                    self.take(
                        way,
                        "it asks for a share without a size, and time-slicing is not offered",
                        &[("time-slicing", &none.because)],
                    )
                }
            },
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
        let Err(mig) = self.mig() else { return self.apart(why) };
        let mig = ("MIG", mig.because.as_str());
        if let Ok(way) = self.limiter() {
            return self.take(
                way,
                &format!("{why}; under the limiter every container keeps a context of its own"),
                &[mig, ("MPS", MPS_FAULTS), ("time-slicing", NO_LIMITS)],
            );
        }
        let limiter = ("limiter", NO_LIMITER);
        match self.turns() {
            Ok(way) if !self.is_sized() => self.take(
                way,
                &format!("{why}; containers that take turns have contexts of their own"),
                &[mig, ("MPS", MPS_FAULTS), limiter],
            ),
            turns => {
                let turns = turns.err().map_or(NO_LIMITS.to_owned(), |none| none.because);
                self.take(
                    Way::Exclusive,
                    &format!(
                        "{why}, and a part would need MIG or the limiter, but {} and {NO_LIMITER}",
                        mig.1
                    ),
                    &[mig, ("MPS", MPS_FAULTS), limiter, ("time-slicing", &turns)],
                )
            }
        }
    }

    fn sized(&self) -> Result<Choice, NoMechanism> {
        let no_mps = match self.mps() {
            Ok(way) => {
                return self.take(
                    way,
                    "it asks for a size, and the driver enforces MPS limits of any size",
                    &[("MIG", FIXED_SIZES), ("time-slicing", NO_LIMITS), ("exclusive", ONE_OWNER)],
                );
            }
            Err(none) => none.because,
        };
        let mig = if self.table().is_ok() { FIXED_SIZES } else { NO_MIG };
        match self.limiter() {
            Ok(way) => self.take(
                way,
                "it asks for a size, and the limiter enforces one where MPS can not",
                &[("MPS", &no_mps), ("MIG", mig), ("time-slicing", NO_LIMITS)],
            ),
            Err(_) => self.take(
                Way::Exclusive,
                &format!(
                    "it asks for a size that nothing on this GPU enforces, so it gets the whole GPU; the limiter would, but {NO_LIMITER}"
                ),
                &[("MPS", &no_mps), ("MIG", mig), ("limiter", NO_LIMITER), ("time-slicing", NO_LIMITS)],
            ),
        }
    }

    fn named(&self, named: Mechanism) -> Result<Choice, NoMechanism> {
        let refuse = |why: &str| Err(self.none(format!("it names {named}, but {why}")));
        let tenant = self.needs.isolation == Isolation::Tenant;
        let fault = self.needs.isolation >= Isolation::Fault;
        match named {
            Mechanism::Exclusive => self.take(Way::Exclusive, "it names a whole GPU", &[]),
            Mechanism::Mig => {
                self.take(self.mig()?, "it names MIG, and this is the smallest device that holds it", &[])
            }
            Mechanism::Mps if fault => refuse(MPS_FAULTS),
            _ if tenant => refuse("only MIG or a whole GPU keeps tenants apart"),
            Mechanism::Mps => self.take(self.mps()?, "it names MPS", &[]),
            Mechanism::Limiter => match self.limiter() {
                Ok(way) => self.take(way, "it names the limiter", &[]),
                // What was asked for is a part; who keeps it to that is a detail of where the manifest comes from.
                Err(none) => self.unnamed().map(|mut choice| {
                    choice.because = format!("it names the limiter, but {NO_LIMITER}; {}", choice.because);
                    if !choice.refused.iter().any(|refused| refused.mechanism == "limiter") {
                        choice.refused.push(Refused { mechanism: "limiter", because: none.because });
                    }
                    choice
                }),
            },
            Mechanism::TimeSlicing if self.is_sized() => refuse(NO_LIMITS),
            Mechanism::TimeSlicing => self.take(self.turns()?, "it names time-slicing", &[]),
        }
    }

    fn layered(&self, profile: &ProfileName) -> Result<Choice, NoMechanism> {
        let profile = self.known(profile)?;
        if self.needs.isolation == Isolation::Tenant {
            return Err(self.none("a share of a MIG device has neighbours; ask for the device itself"));
        }
        let named = self.needs.named.and_then(Sharing::of);
        let sharing = match (named, self.needs.isolation) {
            (Some(named), Isolation::Unstated | Isolation::Performance) => named,
            (_, Isolation::Performance) => Sharing::Mps,
            _ => Sharing::TimeSlicing,
        };
        if !self.offers(sharing.mechanism()) {
            return Err(self.none(format!(
                "a share of a MIG device would need {}, which the cluster does not offer",
                sharing.name()
            )));
        }
        let because = format!("it asks for a share of a MIG device, which {} gives", sharing.name());
        self.take(
            Way::Layered(profile, sharing),
            &because,
            &[("MIG", "the device alone would be more than it asks for")],
        )
    }
}
