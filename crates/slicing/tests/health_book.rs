//! The health book, story by story: what marks a part, what heals it, and what is only remarked.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod recorded;

use carve_gpu_host::GpuEvent;
use carve_gpu_model::{ComputeInstanceId, GpuIndex, GpuInstanceId, GpuUuid, Xid, XidClass};
use carve_slicing::health::{
    Cause, Health, HealthBook, HealthNews, HealthSettings, MpsState, Probe, Remark, Seconds, Sequence,
    SickReason,
};
use carve_slicing::{NodeGpus, PartId};

/// A node with two MIG GPUs and a plain one, its book, and a clock.
struct Story {
    node: NodeGpus,
    book: HealthBook,
    now: u64,
}

fn story() -> Story {
    let node = recorded::machine("H200*2,L40S*1", "0=1g.18gb,1g.18gb,2g.35gb;1=3g.71gb");
    let book = HealthBook::new(HealthSettings::default(), &node);
    Story { node, book, now: 1000 }
}

impl Story {
    fn gpu(&self, index: usize) -> GpuUuid {
        self.node.gpus[index].gpu.uuid.clone()
    }

    fn mig(&self, gpu: usize, position: usize) -> PartId {
        self.node.gpus[gpu].migs[position].part()
    }

    fn instance(&self, gpu: usize, position: usize) -> (GpuInstanceId, ComputeInstanceId) {
        let device = &self.node.gpus[gpu].migs[position].device;
        (device.gpu_instance, device.compute_instance)
    }

    fn xid(&mut self, gpu: u32, xid: u64) -> HealthNews {
        let event = GpuEvent { gpu: GpuIndex(gpu), xid, gpu_instance: None, compute_instance: None };
        self.book.xid(&event, Seconds(self.now))
    }

    fn confined(&mut self, xid: u64, gpu: usize, position: usize) -> HealthNews {
        let (instance, compute) = self.instance(gpu, position);
        let event = GpuEvent {
            gpu: GpuIndex(gpu as u32),
            xid,
            gpu_instance: Some(instance),
            compute_instance: Some(compute),
        };
        self.book.xid(&event, Seconds(self.now))
    }

    /// A probe, ten seconds after whatever came before.
    fn probe(&mut self, gpu: usize, probe: Probe) -> HealthNews {
        self.now += 10;
        let gpu = self.gpu(gpu);
        self.book.probe(&gpu, probe, Seconds(self.now))
    }

    fn good(&mut self, gpu: usize) -> HealthNews {
        self.probe(gpu, Probe::Good)
    }

    fn sick(&self) -> Vec<PartId> {
        self.book.all().into_iter().filter(|(_, health)| !health.is_healthy()).map(|(part, _)| part).collect()
    }

    fn reason(&self, part: &PartId) -> SickReason {
        match self.book.health_of(part) {
            Health::Unhealthy { reason, .. } => reason,
            Health::Healthy => panic!("{part} is healthy"),
        }
    }

    /// The agent starts anew on the same machine.
    fn restart(&mut self) {
        let records = self.book.to_records();
        self.book =
            HealthBook::from_records(HealthSettings::default(), &self.node, &records, Seconds(self.now));
    }
}

fn parts_of(node: &NodeGpus, gpu: usize) -> Vec<PartId> {
    let node = &node.gpus[gpu];
    let mut parts: Vec<PartId> = node.migs.iter().map(|mig| mig.part()).chain([node.part()]).collect();
    parts.sort();
    parts
}

#[test]
fn a_recoverable_xid_marks_the_gpu_and_its_mig_devices_until_three_good_probes() {
    let mut story = story();
    let news = story.xid(0, 95);
    assert_eq!(story.sick(), parts_of(&story.node, 0));
    assert_eq!(news.changes.len(), 4);
    assert!(news.changes.iter().all(|change| change.flips() && change.xid() == Some(Xid(95))));
    for _ in 0..2 {
        assert_eq!(story.good(0), HealthNews::default());
        assert_eq!(story.sick().len(), 4);
    }
    let news = story.good(0);
    assert_eq!(story.sick(), []);
    let text = news.changes[0].to_string();
    assert!(text.ends_with("is healthy again: the GPU was probed"), "{text}");
    assert_eq!((news.changes[0].cause, news.changes[0].xid()), (Cause::Probe, Some(Xid(95))));
}

#[test]
fn probes_must_be_in_a_row_and_apart() {
    let mut story = story();
    story.xid(2, 48);
    let gpu = story.gpu(2);
    // Nine seconds after the fault, and then many within a second: none or one counts.
    story.book.probe(&gpu, Probe::Good, Seconds(1009));
    for _ in 0..5 {
        story.book.probe(&gpu, Probe::Good, Seconds(1010));
    }
    assert_eq!(story.sick().len(), 1);
    story.now = 1010;
    story.good(2);
    // The third is bad, so that counting starts again.
    story.probe(2, Probe::Bad("memory could not be read".to_owned()));
    story.good(2);
    story.good(2);
    assert_eq!(story.sick().len(), 1);
    story.good(2);
    assert_eq!(story.sick(), []);
}

#[test]
fn the_same_xid_again_spoils_the_proof_and_is_not_told_twice() {
    let mut story = story();
    story.xid(0, 95);
    story.good(0);
    story.good(0);
    assert_eq!(story.xid(0, 95), HealthNews::default());
    story.good(0);
    assert_eq!(story.sick().len(), 4);
    let Health::Unhealthy { since, .. } = story.book.health_of(&parts_of(&story.node, 0)[0]) else {
        panic!()
    };
    assert_eq!(since, Sequence(1));
}

#[test]
fn a_clock_put_back_does_not_keep_a_gpu_out() {
    let mut story = story();
    story.xid(0, 95);
    story.now = 0;
    for _ in 0..4 {
        story.good(0);
    }
    assert_eq!(story.sick(), []);
}

#[test]
fn a_reset_heals_everything_but_the_loss() {
    let mut story = story();
    story.xid(0, 79);
    story.confined(48, 0, 1);
    let gpu = story.gpu(0);
    let news = story.book.reset(&gpu);
    assert_eq!((story.sick(), news.changes.len()), (vec![], 4));
    assert!(news.changes.iter().all(|change| change.cause == Cause::Reset));

    story.xid(0, 79);
    story.book.lost(&gpu);
    assert_eq!(story.book.reset(&gpu), HealthNews::default());
    assert_eq!(story.sick().len(), 4);
    let now = Seconds(story.now);
    assert_eq!(story.book.found(&gpu, now).changes.len(), 4);
    assert_eq!(story.sick(), []);
}

#[test]
fn a_fatal_xid_needs_a_reset_or_the_gpu_gone_and_back_and_proved() {
    let mut story = story();
    story.xid(2, 79);
    for _ in 0..20 {
        story.good(2);
    }
    assert_eq!(story.sick().len(), 1);
    let (gpu, now) = (story.gpu(2), Seconds(story.now));
    // Found without having been lost is no news.
    story.book.found(&gpu, now);
    for _ in 0..5 {
        story.good(2);
    }
    assert_eq!(story.sick().len(), 1);
    story.book.lost(&gpu);
    story.good(2);
    let now = Seconds(story.now);
    story.book.found(&gpu, now);
    story.good(2);
    story.good(2);
    assert_eq!(story.sick().len(), 1);
    story.good(2);
    assert_eq!(story.sick(), []);
}

#[test]
fn answers_of_a_lost_gpu_prove_nothing() {
    let mut story = story();
    story.xid(2, 48);
    let gpu = story.gpu(2);
    story.book.lost(&gpu);
    for _ in 0..5 {
        story.good(2);
    }
    let now = Seconds(story.now);
    story.book.found(&gpu, now);
    assert_eq!(story.reason(&story.node.gpus[2].part()).xid(), Some(Xid(48)));
}

#[test]
fn a_gpu_that_was_replaced_is_forgotten() {
    let mut story = story();
    story.xid(2, 79);
    let old = story.node.gpus[2].part();
    let mut replaced = story.node.clone();
    replaced.gpus[2].gpu.uuid = GpuUuid("GPU-new".to_owned());
    story.book.node_changed(&replaced, Seconds(0));
    assert_eq!(story.reason(&old), SickReason::Absent);
    assert_eq!(story.sick(), []);
    assert_eq!(story.book.to_records().gpus, []);
    // An error at that place is the new one's.
    story.xid(2, 48);
    assert_eq!(story.sick(), [PartId::new("GPU-new")]);
}

#[test]
fn a_confined_xid_marks_its_mig_device_alone() {
    let mut story = story();
    let news = story.confined(48, 0, 1);
    let part = story.mig(0, 1);
    assert_eq!(story.sick(), std::slice::from_ref(&part));
    assert_eq!(news.changes.len(), 1);
    assert_eq!(
        story.reason(&part),
        SickReason::Xid { xid: Xid(48), class: XidClass::Recoverable, confined: true }
    );
    for _ in 0..3 {
        story.good(0);
    }
    assert_eq!(story.sick(), []);
}

#[test]
fn an_xid_of_a_gpu_instance_without_a_compute_instance_marks_all_in_it() {
    let mut story = story();
    let (instance, _) = story.instance(0, 2);
    let event = GpuEvent { gpu: GpuIndex(0), xid: 48, gpu_instance: Some(instance), compute_instance: None };
    story.book.xid(&event, Seconds(0));
    assert_eq!(story.sick(), [story.mig(0, 2)]);
}

#[test]
fn off_the_bus_is_never_confined_and_without_mig_nothing_is() {
    let mut story = story();
    story.confined(79, 0, 1);
    assert_eq!(story.sick(), parts_of(&story.node, 0));
    let instance = Some(GpuInstanceId(0));
    let event = GpuEvent { gpu: GpuIndex(2), xid: 48, gpu_instance: instance, compute_instance: None };
    story.book.xid(&event, Seconds(0));
    assert_eq!(story.sick().len(), 5);
}

#[test]
fn a_mig_device_created_anew_is_well_under_a_new_name_and_under_the_old_one() {
    let mut story = story();
    let part = story.mig(0, 0);
    story.confined(48, 0, 0);
    story.confined(48, 0, 1);
    let news = story.book.recreated(&part);
    assert_eq!((news.changes.len(), news.changes[0].part.clone()), (1, part));
    assert_eq!(story.sick(), [story.mig(0, 1)]);

    // Cut otherwise: the sick one is gone, and when its name returns it is another device.
    let mut cut = story.node.clone();
    cut.gpus[0].migs.remove(1);
    story.book.node_changed(&cut, Seconds(0));
    assert_eq!(story.sick(), []);
    story.book.node_changed(&story.node, Seconds(0));
    assert_eq!(story.sick(), []);

    // The same name in another place is another device too.
    story.confined(48, 0, 1);
    let mut moved = story.node.clone();
    moved.gpus[0].migs[1].device.gpu_instance = GpuInstanceId(77);
    story.book.node_changed(&moved, Seconds(0));
    assert_eq!(story.sick(), []);
}

#[test]
fn new_mig_devices_of_a_sick_gpu_are_sick() {
    let mut story = story();
    story.xid(0, 95);
    let mut cut = story.node.clone();
    let mut new = cut.gpus[0].migs[0].clone();
    new.device.uuid.0 = "MIG-new".to_owned();
    cut.gpus[0].migs = vec![new];
    story.book.node_changed(&cut, Seconds(0));
    assert_eq!(story.sick(), parts_of(&cut, 0));
}

#[test]
fn errors_of_applications_mark_nothing_and_are_told() {
    let mut story = story();
    for xid in [13, 31, 43, 45, 63, 68, 92, 94, 154] {
        let news = story.xid(0, xid);
        assert_eq!(news.changes, []);
        assert!(
            matches!(&news.remarks[..], [Remark::Harmless { xid: told, .. }] if *told == Xid(xid)),
            "{news:?}"
        );
    }
    assert_eq!(story.sick(), []);
    // What NVIDIA's plugin ignores although its catalogue asks for a reset.
    story.xid(0, 109);
    assert_eq!(story.sick().len(), 4);
}

#[test]
fn an_xid_nobody_knows_keeps_the_gpu_back_until_it_proves_well() {
    let mut story = story();
    story.xid(2, 4711);
    assert_eq!(story.sick().len(), 1);
    for _ in 0..3 {
        story.good(2);
    }
    assert_eq!(story.sick(), []);
}

#[test]
fn events_of_things_that_are_not_here_mark_nothing_and_are_told() {
    let mut story = story();
    let news = story.xid(9, 79);
    assert_eq!(news.remarks, [Remark::UnknownGpu { xid: Xid(79), gpu: GpuIndex(9) }]);
    let text = news.remarks[0].to_string();
    assert!(text.starts_with("XID 79 (the GPU has fallen off the bus) came for GPU 9, which"), "{text}");
    let event = GpuEvent {
        gpu: GpuIndex(0),
        xid: 48,
        gpu_instance: Some(GpuInstanceId(99)),
        compute_instance: Some(ComputeInstanceId(0)),
    };
    let news = story.book.xid(&event, Seconds(0));
    assert!(matches!(&news.remarks[..], [Remark::UnknownInstance { .. }]), "{news:?}");
    let stranger = GpuUuid("GPU-stranger".to_owned());
    assert_eq!(story.book.lost(&stranger).remarks, [Remark::NotHere("GPU-stranger".to_owned())]);
    assert_eq!(story.sick(), []);
    assert_eq!(story.reason(&PartId::new("MIG-stranger")), SickReason::Absent);
}

#[test]
fn a_place_in_the_order_is_that_of_the_gpu_that_is_there() {
    let mut story = story();
    // GPU 1 dropped out, GPU 2 moved up, and GPU 1 is remembered.
    let mut now = story.node.clone();
    now.gpus[1].lost = true;
    now.gpus[2].gpu.index = GpuIndex(1);
    story.book.node_changed(&now, Seconds(0));
    story.xid(1, 48);
    assert!(matches!(story.reason(&now.gpus[2].part()), SickReason::Xid { .. }));
    assert_eq!(story.reason(&now.gpus[1].part()), SickReason::GpuLost);
}

#[test]
fn a_failed_probe_marks_without_an_xid_unless_health_checks_are_off() {
    let mut story = story();
    story.probe(2, Probe::Bad("the driver asks for a reset".to_owned()));
    let part = story.node.gpus[2].part();
    assert_eq!(story.reason(&part), SickReason::ProbeFailed("the driver asks for a reset".to_owned()));
    // Told once, in the first words.
    assert_eq!(story.probe(2, Probe::Bad("still".to_owned())), HealthNews::default());

    let off = HealthSettings::parse("all", "", &mut Vec::new());
    let mut book = HealthBook::new(off, &story.node);
    book.probe(&story.gpu(2), Probe::Bad("x".to_owned()), Seconds(0));
    assert!(book.health_of(&part).is_healthy());
    book.lost(&story.gpu(2));
    assert_eq!(book.health_of(&part), Health::Unhealthy { reason: SickReason::GpuLost, since: Sequence(2) });
}

#[test]
fn without_probes_that_heal_only_a_reset_does() {
    let mut story = story();
    let mut settings = HealthSettings::default();
    settings.good_probes = 0;
    story.book = HealthBook::new(settings, &story.node);
    story.xid(2, 48);
    for _ in 0..50 {
        story.good(2);
    }
    assert_eq!(story.sick().len(), 1);
    let gpu = story.gpu(2);
    story.book.reset(&gpu);
    assert_eq!(story.sick(), []);
}

#[test]
fn a_part_whose_mps_daemon_does_not_serve_is_sick_alone() {
    let mut story = story();
    let part = story.mig(0, 0);
    story.book.mps(&part, MpsState::NotReady("exited with code 1".to_owned()));
    assert_eq!(story.sick(), std::slice::from_ref(&part));
    // Neither a reset nor probes start a daemon.
    let gpu = story.gpu(0);
    story.book.reset(&gpu);
    for _ in 0..5 {
        story.good(0);
    }
    assert_eq!(story.sick(), std::slice::from_ref(&part));
    // An error is graver, and the daemon is still down when it is over.
    story.xid(0, 95);
    assert_eq!(story.reason(&part).label(), "Xid");
    story.book.reset(&gpu);
    assert_eq!(story.reason(&part).label(), "MpsNotReady");
    story.book.mps(&part, MpsState::Ready);
    assert_eq!(story.sick(), []);
}

#[test]
fn the_gravest_reason_is_told() {
    let mut story = story();
    let part = story.node.gpus[2].part();
    story.xid(2, 48);
    story.xid(2, 79);
    assert_eq!(story.reason(&part).xid(), Some(Xid(79)));
    let gpu = story.gpu(2);
    let news = story.book.lost(&gpu);
    assert_eq!(story.reason(&part), SickReason::GpuLost);
    assert!(news.changes.len() == 1 && !news.changes[0].flips());
}

#[test]
fn a_sick_gpu_stays_sick_when_the_agent_starts_anew() {
    let mut story = story();
    story.xid(1, 79);
    story.confined(48, 0, 1);
    let before = story.sick();
    let book = story.book.clone();
    story.restart();
    assert_eq!((story.sick(), &story.book), (before, &book));
    story.book.driver_reloaded();
    assert_eq!(story.sick(), []);
    assert_eq!(story.book.to_records().gpus, []);
}

#[test]
fn after_a_restart_the_reading_wins_over_the_record() {
    let mut story = story();
    let gpu = story.gpu(0);
    story.confined(48, 0, 1);
    story.xid(2, 79);
    story.book.lost(&gpu);
    story.book.lost(&story.gpu(2));
    let records = story.book.to_records();
    // GPU 0 is still lost, and tells nothing of its MIG devices; GPU 2 is back; GPU 1 is gone.
    let mut now = story.node.clone();
    now.gpus[0].lost = true;
    now.gpus[0].migs.clear();
    now.gpus.remove(1);
    let settings = HealthSettings::default();
    let mut book = HealthBook::from_records(settings.clone(), &now, &records, Seconds(0));
    let sick = |book: &HealthBook| book.all().values().filter(|health| !health.is_healthy()).count();
    assert_eq!(sick(&book), 2);
    // GPU 2 was away and proves itself; GPU 0 comes back with the MIG device that was sick.
    for at in [10, 20, 30] {
        book.probe(&story.gpu(2), Probe::Good, Seconds(at));
    }
    assert!(book.health_of(&story.node.gpus[2].part()).is_healthy());
    now.gpus[0] = story.node.gpus[0].clone();
    book.node_changed(&now, Seconds(40));
    assert!(!book.health_of(&story.mig(0, 1)).is_healthy());
    assert_eq!(sick(&book), 1);

    // What the operator switched off in between is forgotten.
    let off = HealthSettings::parse("48", "", &mut Vec::new());
    let book = HealthBook::from_records(off, &story.node, &records, Seconds(0));
    assert!(book.health_of(&story.mig(0, 1)).is_healthy());
}

#[test]
fn messages_say_what_where_and_what_to_do() {
    let mut story = story();
    let text = story.xid(2, 79).changes[0].to_string();
    assert_eq!(
        text,
        "GPU-10000002-aaaa-bbbb-cccc-000000000003 is unhealthy: XID 79 (the GPU has fallen off the bus); reset the GPU \
         or restart the machine"
    );
    let text = story.confined(48, 0, 0).changes[0].to_string();
    assert!(
        text.ends_with(
            "XID 48 (a memory error that ECC could not correct) in this MIG device; it is offered again once \
             created anew or proved well"
        ),
        "{text}"
    );
}
