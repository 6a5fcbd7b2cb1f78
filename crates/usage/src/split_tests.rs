//! Parts sum up to their device, whatever is known of them.

use super::{Busy, Evidence, Strangers, TenantTick, Tick, split};
use carve_gpu_model::Bytes;
use proptest::prelude::*;

fn tenant(promised: Option<u32>, counted: Option<u64>, processes: u32) -> TenantTick {
    TenantTick { promised, counted: counted.map(Busy), processes, memory: Bytes(u64::from(processes) * 100) }
}

fn tick(busy: u64, tenants: Vec<TenantTick>) -> Tick {
    Tick { busy: Some(Busy(busy)), memory: Bytes(1_000), tenants, ..Tick::default() }
}

fn told(tick: &Tick) -> (Vec<Option<(u64, &'static str)>>, u64) {
    let split = split(tick);
    let word = |(busy, evidence): (Busy, Evidence)| (busy.0, evidence.word());
    (split.parts.iter().map(|part| part.busy.map(word)).collect(), split.rest.busy.0)
}

#[test]
fn who_is_alone_used_what_the_device_did() {
    assert_eq!(told(&tick(700, vec![tenant(None, None, 1)])), (vec![Some((700, "measured"))], 0));
    assert_eq!(told(&tick(700, vec![tenant(None, None, 0)])), (vec![Some((700, "measured"))], 0));
    assert_eq!(told(&tick(700, Vec::new())), (Vec::new(), 700));
}

#[test]
fn whoever_counts_is_believed_and_the_others_share_the_rest() {
    let tenants =
        vec![tenant(Some(250), Some(300), 1), tenant(Some(100), None, 1), tenant(Some(300), None, 2)];
    let parts = vec![Some((300, "limiter")), Some((100, "quota")), Some((300, "quota"))];
    assert_eq!(told(&tick(700, tenants)), (parts, 0));
    // Nobody is left who could have used it.
    assert_eq!(told(&tick(700, vec![tenant(None, Some(300), 1)])), (vec![Some((300, "limiter"))], 400));
    // The driver's figure is coarse: what was counted is not cut down to it.
    assert_eq!(told(&tick(700, vec![tenant(None, Some(720), 1)])), (vec![Some((720, "limiter"))], 0));
}

#[test]
fn without_promises_everybody_with_processes_counts_alike() {
    let tenants = vec![tenant(None, None, 1), tenant(Some(900), None, 3), tenant(None, None, 0)];
    assert_eq!(
        told(&tick(700, tenants)),
        (vec![Some((350, "equal")), Some((350, "equal")), Some((0, "equal"))], 0)
    );
}

#[test]
fn strangers_may_have_used_it_too() {
    let mut tick = tick(700, vec![tenant(Some(500), None, 1)]);
    tick.strangers = Strangers { processes: 2, memory: Bytes(50) };
    assert_eq!(told(&tick), (vec![Some((350, "equal"))], 350));
    tick.tenants[0].processes = 0;
    assert_eq!(told(&tick), (vec![Some((0, "equal"))], 700), "it has no process there");
}

#[test]
fn what_ran_at_once_is_brought_to_what_the_device_did() {
    let mut tick = tick(600, vec![tenant(None, Some(600), 1), tenant(None, Some(300), 1)]);
    assert_eq!(told(&tick), (vec![Some((600, "limiter")), Some((300, "limiter"))], 0));
    tick.at_once = true;
    assert_eq!(told(&tick), (vec![Some((400, "limiter")), Some((200, "limiter"))], 0));
}

#[test]
fn where_the_driver_tells_nothing_only_counts_are_known() {
    let mut tick = tick(0, vec![tenant(None, Some(600), 1), tenant(Some(500), None, 1)]);
    tick.busy = None;
    assert_eq!(told(&tick), (vec![Some((600, "limiter")), None], 0));
}

fn ticks() -> impl Strategy<Value = Tick> {
    let tenant =
        (prop::option::of(0_u32..=1000), prop::option::of(0_u64..2_000_000_000), 0_u32..4, 0_u64..1 << 40);
    let tenant = tenant.prop_map(|(promised, counted, processes, memory)| TenantTick {
        promised,
        counted: counted.map(Busy),
        processes,
        memory: Bytes(memory),
    });
    let strangers = (0_u32..3, 0_u64..1 << 40)
        .prop_map(|(processes, memory)| Strangers { processes, memory: Bytes(memory) });
    let parts = (
        prop::option::weighted(0.9, 0_u64..2_000_000_000),
        0_u64..1 << 42,
        any::<bool>(),
        prop::collection::vec(tenant, 0..12),
        strangers,
    );
    parts.prop_map(|(busy, memory, at_once, tenants, strangers)| Tick {
        busy: busy.map(Busy),
        memory: Bytes(memory),
        at_once,
        tenants,
        strangers,
        ahead: Busy(0),
    })
}

#[test]
fn what_was_counted_too_early_is_not_nobodys_later() {
    let mut tick = tick(700, vec![tenant(None, Some(900), 1)]);
    assert_eq!(split(&tick).ahead, Busy(200));
    tick = Tick { ahead: Busy(200), tenants: vec![tenant(None, Some(500), 1)], ..tick };
    assert_eq!((told(&tick), split(&tick).ahead), ((vec![Some((500, "limiter"))], 0), Busy(0)));
    // Whoever always counts too much does not take it from others for ever.
    tick.tenants = vec![tenant(None, Some(9_000_000_000), 1)];
    assert_eq!(split(&tick).ahead, Busy(2_000_000_000));
}

proptest! {
    #[test]
    fn over_time_parts_sum_up_to_the_device_although_moments_do_not_agree(
        moments in prop::collection::vec((0_u64..1_000_000, -200_000_i64..200_000), 1..60),
    ) {
        let (mut ahead, mut late) = (Busy(0), 0_i64);
        let (mut device, mut divided, mut counted) = (0, 0, 0);
        for (busy, slip) in moments {
            // Some of what ran is counted in another moment than the driver tells it in.
            let now = (i64::try_from(busy).unwrap() + late - slip).max(0);
            late += i64::try_from(busy).unwrap() - now;
            let split = split(&Tick { ahead, ..tick(busy, vec![tenant(None, Some(now as u64), 1)]) });
            ahead = split.ahead;
            device += busy;
            counted += now as u64;
            divided += split.busy().0;
        }
        prop_assert_eq!(divided - ahead.0, device.max(counted.min(device)), "{} counted", counted);
    }

    #[test]
    fn parts_sum_up_to_the_device(tick in ticks()) {
        let split = split(&tick);
        let counted: u64 = tick.tenants.iter().filter_map(|tenant| tenant.counted).map(|busy| busy.0).sum();
        match tick.busy {
            Some(busy) if tick.at_once => prop_assert_eq!(split.busy(), busy),
            Some(busy) => prop_assert_eq!(split.busy().0, busy.0.max(counted)),
            None => prop_assert_eq!(split.busy().0, counted),
        }
        let shown: u64 = tick.tenants.iter().map(|tenant| tenant.memory.0).sum();
        prop_assert_eq!(split.memory().0, tick.memory.0.max(shown));
        prop_assert_eq!(split.parts.len(), tick.tenants.len());
        for (tenant, part) in tick.tenants.iter().zip(&split.parts) {
            prop_assert_eq!(part.memory, tenant.memory);
            let Some((busy, evidence)) = part.busy else { continue };
            prop_assert_eq!(evidence == Evidence::Limiter, tenant.counted.is_some());
            let alone = tick.tenants.len() == 1 && tick.strangers.processes == 0;
            prop_assert!(evidence != Evidence::Measured || alone);
            prop_assert!(tenant.processes > 0 || tenant.counted.is_some() || alone || busy.0 == 0);
        }
    }
}
