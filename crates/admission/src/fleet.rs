//! What is known of the cluster's GPUs when a pod is admitted.

use carve_formats::workloads::{Names, Thousandths};
use carve_gpu_model::{Mebibytes, ProfileName};

/// Memory of fractions goes by steps of so many MiB; what is less than a step of a GPU is left over.
const STEP: u64 = 256;

/// The cluster's GPUs, as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    /// What the agents call their driver; classes and attributes are called after it.
    pub driver: String,
    /// One entry for each product; none where nothing is known yet.
    pub products: Vec<FleetProduct>,
}

/// A product of which the cluster has GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetProduct {
    /// As the driver calls it, which is what devices say under `productName`.
    pub name: String,
    /// Memory that parts can be made of: what there is without what the driver keeps.
    pub memory: Mebibytes,
    /// MIG profiles that are offered; none where MIG is not.
    pub profiles: Vec<FleetProfile>,
}

/// A MIG profile that is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetProfile {
    /// Its name.
    pub name: ProfileName,
    /// Memory of an instance.
    pub memory: Mebibytes,
}

impl Default for Fleet {
    fn default() -> Self {
        Fleet { driver: "gpu.carve.dev".to_owned(), products: Vec::new() }
    }
}

impl Fleet {
    /// What the driver's names end in: `carve.dev` of `gpu.carve.dev`.
    pub(crate) fn domain(&self) -> &str {
        self.driver.strip_prefix("gpu.").unwrap_or(&self.driver)
    }

    /// Products that the names allow. Letter case does not matter, nor whether words are joined by a dash or a space.
    pub(crate) fn allowed<'a>(
        &'a self,
        models: &'a Names<String>,
    ) -> impl Iterator<Item = &'a FleetProduct> + 'a {
        self.products.iter().filter(|product| {
            let name = plain(&product.name);
            let has = |part: &String| name.contains(&plain(part));
            (models.wanted.is_empty() || models.wanted.iter().any(has)) && !models.unwanted.iter().any(has)
        })
    }

    /// The most memory that a GPU has which the names allow.
    pub(crate) fn most_memory(&self, models: &Names<String>) -> Option<Mebibytes> {
        self.allowed(models).map(|product| product.memory).max()
    }
}

impl FleetProduct {
    /// A share of its memory. Rounded down to steps, so that two halves fit.
    pub(crate) fn share(&self, share: Thousandths) -> Mebibytes {
        let all = self.memory.0 / STEP * STEP;
        Mebibytes((all * u64::from(share.0) / 1000 / STEP * STEP).max(STEP))
    }

    /// The smallest MIG device with this memory and percent of compute.
    pub(crate) fn smallest(&self, memory: Mebibytes, compute: Option<u8>) -> Option<&FleetProfile> {
        let slices = self.profiles.iter().map(|profile| profile.name.gpu_slices()).max()?;
        let fits = |profile: &&FleetProfile| {
            let enough = u64::from(compute.unwrap_or(0)) * slices <= profile.name.gpu_slices() * 100;
            // Devices with engines or graphics of their own are for those who name them.
            profile.memory >= memory && enough && profile.name.attributes().is_empty()
        };
        let size = |profile: &&FleetProfile| (profile.memory, profile.name.gpu_slices());
        self.profiles.iter().filter(fits).min_by_key(size)
    }
}

/// A name without what people write differently.
pub(crate) fn plain(name: &str) -> String {
    name.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::FleetProduct;
    use carve_formats::workloads::Thousandths;
    use carve_gpu_model::Mebibytes;

    proptest::proptest! {
        #[test]
        fn shares_that_make_a_whole_fit_a_gpu(memory in 2_560_u64..300_000, parts in 1_u16..=10) {
            let product = FleetProduct { name: "x".to_owned(), memory: Mebibytes(memory), profiles: Vec::new() };
            let one = product.share(Thousandths(1000 / parts));
            // The scheduler rounds every part up to a step.
            proptest::prop_assert!(one.0.div_ceil(256) * 256 * u64::from(parts) <= memory);
            proptest::prop_assert!(one.0 >= 256);
        }
    }
}
