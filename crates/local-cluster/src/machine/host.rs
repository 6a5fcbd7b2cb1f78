//! The GPUs of a machine, which are simulated or real.

use carve_gpu_host::{GpuHost, SimulatedHost};
use std::ops::{Deref, DerefMut};

pub(crate) enum Host {
    Simulated(Box<SimulatedHost>),
    Here(Box<dyn GpuHost + Send>),
}

impl Host {
    /// The simulated ones, if they are.
    pub(crate) fn simulated(&self) -> Option<&SimulatedHost> {
        match self {
            Host::Simulated(host) => Some(host),
            Host::Here(_) => None,
        }
    }

    /// The same, to change what runs on them.
    pub(crate) fn simulated_mut(&mut self) -> Option<&mut SimulatedHost> {
        match self {
            Host::Simulated(host) => Some(host),
            Host::Here(_) => None,
        }
    }
}

impl Deref for Host {
    type Target = dyn GpuHost;

    fn deref(&self) -> &Self::Target {
        match self {
            Host::Simulated(host) => &**host,
            Host::Here(host) => &**host,
        }
    }
}

impl DerefMut for Host {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Host::Simulated(host) => &mut **host,
            Host::Here(host) => &mut **host,
        }
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Host::Simulated(host) => host.fmt(to),
            Host::Here(_) => to.write_str("Here"),
        }
    }
}
