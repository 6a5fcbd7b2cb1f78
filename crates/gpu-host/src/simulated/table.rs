//! The profile table a simulated driver reports: the product's, with unknown figures filled in so that names hold.

use carve_gpu_model::{Evidence, Fact, GpuProfile, Mebibytes, Product, ProfileTable};

/// Share of a slot's memory that an instance really gets where nobody has measured it; measured ones lie near it.
const USABLE: f64 = 0.985;

/// The table of a product with MIG, or `None`.
pub(super) fn simulated_table(product: Option<&'static Product>) -> Option<ProfileTable> {
    let product = product?;
    let table = product.profile_table()?;
    let total = product.memory()?.value;
    let profiles = table.profiles().iter().map(|profile| fill(profile, &table, product, total));
    Some(ProfileTable::new(profiles.collect()))
}

fn fill(profile: &GpuProfile, table: &ProfileTable, product: &Product, total: Mebibytes) -> GpuProfile {
    let share = f64::from(profile.size()) / f64::from(table.slots());
    let memory = Mebibytes((total.0 as f64 * share * USABLE) as u64);
    let per_slice = product.multiprocessors().map_or(18, |all| all / u16::from(table.compute_slices()));
    let multiprocessors = per_slice * u16::from(profile.slices);
    GpuProfile {
        memory: profile.memory.or(Some(Fact::new(memory, Evidence::Assumed))),
        multiprocessors: profile.multiprocessors.or(Some(Fact::new(multiprocessors, Evidence::Assumed))),
        ..profile.clone()
    }
}
