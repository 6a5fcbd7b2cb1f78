//! From any state of the API server, a publication leads to exactly the wanted pool, and the next one has nothing to do.

use carve_dra::{Existing, Publication, Slice, SliceContent, publication};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeMap;

/// A slice as the API server keeps it; what it says is a number here.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    generation: i64,
    of: usize,
    says: u8,
}

type Server = BTreeMap<String, Kept>;

fn name_of(index: usize) -> String {
    format!("{index:05x}-slice")
}

/// What a publisher sees of it.
fn seen(server: &Server, wanted: &[u8]) -> Vec<Existing> {
    let existing = |(name, kept): (&String, &Kept)| {
        let index = (0..100).find(|index| name_of(*index) == *name);
        let current = index.and_then(|index| wanted.get(index)) == Some(&kept.says);
        Existing { name: name.clone(), index, generation: kept.generation, of: kept.of, current }
    };
    server.iter().map(existing).collect()
}

fn slices(wanted: &[u8]) -> Vec<Slice> {
    let slice = |index| Slice { index, of: wanted.len(), content: SliceContent::Devices(Vec::new()) };
    (0..wanted.len()).map(slice).collect()
}

/// Does what a publication says, at most so many steps of it.
fn apply(server: &mut Server, wanted: &[u8], publication: &Publication, steps: usize) {
    let mut left = steps;
    let mut step = || {
        left = left.saturating_sub(1);
        left > 0
    };
    for name in &publication.delete {
        if !step() {
            return;
        }
        server.remove(name).expect("what is deleted is there");
    }
    for index in &publication.write {
        if !step() {
            return;
        }
        let kept = Kept { generation: publication.generation, of: wanted.len(), says: wanted[*index] };
        server.insert(name_of(*index), kept);
    }
}

/// What is wanted, and nothing else.
fn holds(server: &Server, wanted: &[u8]) -> bool {
    let generations: Vec<i64> = server.values().map(|kept| kept.generation).collect();
    let says: Vec<u8> = server.values().map(|kept| kept.says).collect();
    let names: Vec<String> = server.keys().cloned().collect();
    says == wanted
        && names == (0..wanted.len()).map(name_of).collect::<Vec<_>>()
        && generations.windows(2).all(|pair| pair[0] == pair[1])
        && server.values().all(|kept| kept.of == wanted.len())
}

fn any_server() -> impl Strategy<Value = Server> {
    // Few generations, numbers and contents, so that states that nearly fit come up.
    let slice = (0..6_usize, any::<bool>(), 0..3_i64, 0..5_usize, 0..2_u8);
    proptest::collection::vec(slice, 0..7).prop_map(|slices| {
        let name = |index: usize, ours: bool| if ours { name_of(index) } else { format!("{index}-foreign") };
        let kept = |generation, of, says| Kept { generation, of, says };
        slices
            .into_iter()
            .map(|(index, ours, generation, of, says)| (name(index, ours), kept(generation, of, says)))
            .collect()
    })
}

fn any_wanted() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(0..2_u8, 1..5)
}

proptest! {
    #[test]
    fn a_publication_leads_to_the_wanted_pool(mut server in any_server(), wanted in any_wanted(), published in 0..4_i64) {
        let before = server.clone();
        let first = publication(&seen(&server, &wanted), &slices(&wanted), published);
        apply(&mut server, &wanted, &first, usize::MAX);
        prop_assert!(holds(&server, &wanted), "{first:?} led to {server:?}");
        let newest = before.values().map(|kept| kept.generation).max().unwrap_or(0).max(published);
        if first.delete.len() + first.write.len() > 1 {
            prop_assert!(first.generation > newest, "{first:?}");
        } else {
            prop_assert!(first.generation >= newest, "{first:?}");
        }
        let second = publication(&seen(&server, &wanted), &slices(&wanted), first.generation);
        prop_assert!(second.is_empty(), "{second:?} after {first:?}");
        prop_assert_eq!(second.generation, first.generation);
    }

    #[test]
    fn at_no_moment_does_a_pool_look_whole_and_is_not(
        mut server in any_server(),
        wanted in any_wanted(),
        steps in 0..8_usize,
    ) {
        // What a scheduler uses: the newest generation, once it has as many slices as each says.
        let usable = |server: &Server| -> Option<Vec<(String, u8)>> {
            let newest = server.values().map(|kept| kept.generation).max()?;
            let of: Vec<_> = server.iter().filter(|(_, kept)| kept.generation == newest).collect();
            let whole = of.iter().all(|(_, kept)| kept.of == of.len());
            whole.then(|| of.iter().map(|(name, kept)| ((*name).clone(), kept.says)).collect())
        };
        // Begins with a pool that was whole.
        let old = server.values().map(|kept| kept.says).collect::<Vec<_>>();
        let mut whole = Server::new();
        apply(&mut whole, &old, &publication(&[], &slices(&old), 0), usize::MAX);
        server = whole;
        let before = usable(&server);
        let todo = publication(&seen(&server, &wanted), &slices(&wanted), 0);
        let deletes = todo.delete.len();
        apply(&mut server, &wanted, &todo, steps);
        let now = usable(&server);
        let done = holds(&server, &wanted);
        let as_before = now == before;
        // Between deleting and writing, what is left of the old generation says how many are missing.
        prop_assert!(done || as_before || now.is_none(), "{now:?} after {steps} steps ({deletes} deletes) of {todo:?}");
        // An interrupted publication is finished by the next.
        let rest = publication(&seen(&server, &wanted), &slices(&wanted), 0);
        apply(&mut server, &wanted, &rest, usize::MAX);
        prop_assert!(holds(&server, &wanted));
    }
}

fn whole(generation: i64, says: &[u8]) -> Server {
    let kept = |says: u8, of| Kept { generation, of, says };
    says.iter().enumerate().map(|(index, one)| (name_of(index), kept(*one, says.len()))).collect()
}

fn of(server: &Server, wanted: &[u8]) -> Publication {
    publication(&seen(server, wanted), &slices(wanted), 0)
}

#[test]
fn one_slice_changes_within_its_generation() {
    let told = of(&whole(7, &[0, 0, 0]), &[0, 1, 0]);
    assert_eq!(told, Publication { delete: Vec::new(), write: vec![1], generation: 7 });
    let only = of(&whole(7, &[0]), &[1]);
    assert_eq!(only, Publication { delete: Vec::new(), write: vec![0], generation: 7 });
}

#[test]
fn two_slices_or_another_number_take_a_new_generation() {
    let two = of(&whole(7, &[0, 0, 0]), &[1, 1, 0]);
    assert_eq!(two, Publication { delete: Vec::new(), write: vec![0, 1, 2], generation: 8 });
    let fewer = of(&whole(7, &[0, 0, 0]), &[0, 0]);
    assert_eq!(fewer, Publication { delete: vec![name_of(2)], write: vec![0, 1], generation: 8 });
    let more = of(&whole(7, &[0, 0]), &[0, 0, 0]);
    assert_eq!(more, Publication { delete: Vec::new(), write: vec![0, 1, 2], generation: 8 });
}

#[test]
fn what_somebody_deleted_is_written_again() {
    let mut server = whole(7, &[0, 0, 0]);
    server.remove(&name_of(1));
    assert_eq!(of(&server, &[0, 0, 0]), Publication { delete: Vec::new(), write: vec![1], generation: 7 });
    let all_gone = publication(&[], &slices(&[0, 0, 0]), 7);
    assert_eq!(all_gone, Publication { delete: Vec::new(), write: vec![0, 1, 2], generation: 8 });
    let first = publication(&[], &slices(&[0]), 0);
    assert_eq!(first, Publication { delete: Vec::new(), write: vec![0], generation: 1 });
}
