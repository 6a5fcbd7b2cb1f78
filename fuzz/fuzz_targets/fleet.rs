//! No text makes the readers of fleets panic, what they accept can be simulated, and what they refuse is refused with words.
#![no_main]

use carve_local_cluster::Fleet;

libfuzzer_sys::fuzz_target!(|text: &str| {
    for read in [Fleet::parse(text), Fleet::from_yaml(text)] {
        match read {
            Ok(fleet) => {
                assert!((1..=2_000).contains(&fleet.machines.len()));
                // Each kind once: a few letters make many machines.
                assert!(fleet.machines.first().is_some_and(|machine| machine.machine().is_ok()));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
