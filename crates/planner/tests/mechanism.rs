//! Every rule for choosing a mechanism, on hardware that has it and on hardware that has not.

use carve_gpu_model::{Isolation, Mebibytes, Mechanism, Mechanisms, Product, ProfileTable, Sharing};
use carve_planner::{Choice, Hardware, Needs, NoMechanism, Size, Way, choose};

/// A product by its key, with a limiter on the node or without.
fn on(
    key: &str,
    limiter: bool,
    size: Size,
    isolation: Isolation,
    named: Option<Mechanism>,
) -> Result<Way, NoMechanism> {
    let without = Mechanisms::ANY.without(Mechanism::Limiter);
    let mechanisms = if limiter { Mechanisms::ANY } else { without };
    chosen(key, mechanisms, Needs { size, isolation, named }).map(|choice| choice.way)
}

fn chosen(key: &str, mechanisms: Mechanisms, needs: Needs) -> Result<Choice, NoMechanism> {
    let product = Product::by_key(key).expect("a product");
    let table: Option<ProfileTable> = product.profile_table();
    let hardware = Hardware {
        name: product.name(),
        memory: product.memory().expect("its memory").value,
        compute_capability: product.compute_capability,
        table: table.as_ref(),
        mechanisms,
    };
    let choice = choose(&needs, &hardware)?;
    assert!(choice.because.len() > 10, "{choice:?}");
    let taken = choice.way.to_string();
    assert!(choice.refused.iter().all(|refused| taken != refused.mechanism && !refused.because.is_empty()));
    Ok(choice)
}

fn part(memory: u64, compute: u16) -> Size {
    Size::Part { memory: Some(Mebibytes(memory)), compute: Some(compute) }
}

fn profile(name: &str) -> Size {
    Size::Profile(name.parse().expect("a profile"))
}

fn mig(name: &str) -> Way {
    Way::Mig(name.parse().expect("a profile"))
}

#[test]
fn whole_gpus_and_mig_devices_are_what_they_are() {
    for isolation in [Isolation::Unstated, Isolation::Tenant] {
        assert_eq!(on("t4", false, Size::Whole, isolation, None), Ok(Way::Exclusive));
        assert_eq!(on("a100-40gb", false, profile("1g.5gb"), isolation, None), Ok(mig("1g.5gb")));
    }
    assert_eq!(on("a100-40gb", false, Size::AnyProfile, Isolation::Unstated, None), Ok(mig("1g.5gb")));
    let unknown = on("a100-80gb", false, profile("1g.5gb"), Isolation::Unstated, None).unwrap_err();
    assert!(unknown.to_string().contains("no profile 1g.5gb; the nearest is 1g.10gb"), "{unknown}");
    let without = on("t4", false, profile("1g.5gb"), Isolation::Unstated, None).unwrap_err();
    assert!(without.to_string().contains("has no MIG"), "{without}");
}

#[test]
fn tenants_are_kept_apart_by_hardware_or_by_whole_gpus() {
    assert_eq!(on("a100-40gb", true, part(4000, 100), Isolation::Tenant, None), Ok(mig("1g.5gb")));
    assert_eq!(
        on("a100-40gb", true, part(4000, 200), Isolation::Tenant, None),
        Ok(mig("2g.10gb")),
        "compute counts"
    );
    assert_eq!(
        on("a100-40gb", true, part(15000, 100), Isolation::Tenant, None),
        Ok(mig("3g.20gb")),
        "memory counts"
    );
    assert_eq!(on("t4", true, part(4000, 100), Isolation::Tenant, None), Ok(Way::Exclusive));
    assert_eq!(on("t4", true, Size::Share, Isolation::Tenant, None), Ok(Way::Exclusive));
    let layered = Size::ShareOfProfile("1g.5gb".parse().expect("a profile"));
    assert!(on("a100-40gb", true, layered, Isolation::Tenant, None).is_err());
}

#[test]
fn faults_are_kept_apart_by_contexts() {
    let way = |key, limiter, size| on(key, limiter, size, Isolation::Fault, None);
    assert_eq!(way("a100-40gb", true, part(4000, 100)), Ok(mig("1g.5gb")));
    assert_eq!(way("t4", true, part(4000, 100)), Ok(Way::Shared(Sharing::Limiter)));
    assert_eq!(way("t4", false, Size::Share), Ok(Way::Shared(Sharing::TimeSlicing)));
    assert_eq!(way("t4", false, part(4000, 100)), Ok(Way::Exclusive));
}

#[test]
fn sizes_are_kept_by_mps_then_by_the_limiter() {
    let way = |key, limiter| on(key, limiter, part(4000, 250), Isolation::Unstated, None);
    assert_eq!(way("t4", true), Ok(Way::Shared(Sharing::Mps)));
    assert_eq!(way("a100-40gb", false), Ok(Way::Shared(Sharing::Mps)));
    assert_eq!(way("p100-16gb", true), Ok(Way::Shared(Sharing::Limiter)), "no limits before Volta");
    assert_eq!(way("p100-16gb", false), Ok(Way::Exclusive));
    let large = on("t4", false, part(20000, 250), Isolation::Unstated, None).unwrap_err();
    assert!(large.to_string().contains("20000 MiB of GPU memory, and it has 15360 MiB"), "{large}");
}

#[test]
fn shares_without_a_size_take_turns_unless_load_matters() {
    let way = |key, isolation| on(key, false, Size::Share, isolation, None);
    assert_eq!(way("t4", Isolation::Unstated), Ok(Way::Shared(Sharing::TimeSlicing)));
    assert_eq!(way("t4", Isolation::Performance), Ok(Way::Shared(Sharing::Mps)));
    assert_eq!(way("p100-16gb", Isolation::Performance), Ok(Way::Exclusive));
    let layered = |isolation| {
        on("a100-40gb", false, Size::ShareOfProfile("1g.5gb".parse().expect("a profile")), isolation, None)
    };
    assert_eq!(layered(Isolation::Unstated).unwrap().to_string(), "time-slicing on MIG 1g.5gb");
    assert_eq!(layered(Isolation::Performance).unwrap().to_string(), "MPS on MIG 1g.5gb");
}

#[test]
fn a_named_mechanism_is_taken_where_it_can_keep_the_promise() {
    let way = |key, limiter, size, isolation, named| on(key, limiter, size, isolation, Some(named));
    let mps = Mechanism::Mps;
    let turns = Mechanism::TimeSlicing;
    let limiter = Mechanism::Limiter;
    assert_eq!(
        way("a100-40gb", false, part(8000, 100), Isolation::Unstated, Mechanism::Mig),
        Ok(mig("1g.10gb"))
    );
    assert!(way("t4", false, part(8000, 100), Isolation::Unstated, Mechanism::Mig).is_err());
    assert_eq!(way("t4", false, part(8000, 100), Isolation::Unstated, mps), Ok(Way::Shared(Sharing::Mps)));
    assert!(
        way("t4", false, part(8000, 100), Isolation::Fault, mps)
            .unwrap_err()
            .because
            .contains("ends all clients")
    );
    assert!(
        way("t4", false, part(8000, 100), Isolation::Unstated, turns)
            .unwrap_err()
            .because
            .contains("limits neither")
    );
    assert_eq!(
        way("t4", false, Size::Share, Isolation::Unstated, turns),
        Ok(Way::Shared(Sharing::TimeSlicing))
    );
    assert!(way("t4", true, Size::Share, Isolation::Tenant, turns).is_err());
    assert_eq!(way("t4", true, part(1, 1), Isolation::Unstated, limiter), Ok(Way::Shared(Sharing::Limiter)));
    assert_eq!(
        way("t4", false, part(1, 1), Isolation::Unstated, limiter),
        Ok(Way::Shared(Sharing::Mps)),
        "a size is a size"
    );
}

/// What is not offered is not chosen, and where that decides, the reason names it.
#[test]
fn what_the_cluster_does_not_offer_is_passed_over_and_said() {
    let without = |gone: &[Mechanism]| gone.iter().fold(Mechanisms::ANY, |all, one| all.without(*one));
    let needs = |size: Size, isolation, named| Needs { size, isolation, named };
    let on = |key, gone: &[Mechanism], needs| chosen(key, without(gone), needs);
    let (sized, fault) = (part(4000, 250), Isolation::Fault);
    let alone = on("t4", &[Mechanism::Limiter], needs(sized.clone(), fault, None)).unwrap();
    assert_eq!(alone.way, Way::Exclusive);
    assert!(alone.because.contains("the cluster has no limiter"), "{}", alone.because);
    let there = on("t4", &[], needs(sized.clone(), fault, None)).unwrap();
    assert_eq!(there.way, Way::Shared(Sharing::Limiter));
    let named = needs(sized.clone(), Isolation::Unstated, Some(Mechanism::Limiter));
    let named = on("t4", &[Mechanism::Limiter], named).unwrap();
    assert_eq!(named.way, Way::Shared(Sharing::Mps));
    assert!(
        named.because.starts_with("it names the limiter, but the cluster has no limiter; "),
        "{}",
        named.because
    );
    let crash = on("t4", &[Mechanism::Limiter], needs(Size::Share, fault, Some(Mechanism::Limiter))).unwrap();
    assert_eq!(crash.way, Way::Shared(Sharing::TimeSlicing), "and not MPS, whose clients end together");
    let old =
        on("p100-16gb", &[Mechanism::Limiter], needs(sized.clone(), Isolation::Unstated, None)).unwrap();
    assert!(old.because.contains("the limiter would"), "{}", old.because);
    let share = || needs(Size::Share, Isolation::Unstated, None);
    assert_eq!(on("t4", &[Mechanism::TimeSlicing], share()).unwrap().way, Way::Shared(Sharing::Mps));
    let neither = [Mechanism::TimeSlicing, Mechanism::Mps, Mechanism::Limiter];
    assert_eq!(on("t4", &neither, share()).unwrap().way, Way::Exclusive);
    let tenant = on("a100-40gb", &[Mechanism::Mig], needs(sized.clone(), Isolation::Tenant, None)).unwrap();
    assert_eq!(tenant.way, Way::Exclusive);
    assert!(on("a100-40gb", &[Mechanism::Mig], needs(profile("1g.5gb"), Isolation::Unstated, None)).is_err());
    let no_mps = on("t4", &[Mechanism::Mps], needs(sized, Isolation::Unstated, None)).unwrap();
    assert_eq!(no_mps.way, Way::Shared(Sharing::Limiter));
}
