//! What a context takes of a device's memory, measured from outside: what is free before one is made, less what is free within it.

use carve_gpu_model::Bytes;

/// Others allocate and free meanwhile; how often is tried to find a moment without them.
const TRIES: usize = 3;
/// What two tries may differ by. One that is remembered for good must not be somebody's model that was loaded meanwhile.
const ALIKE: u64 = 32 << 20;

/// Measures what a context takes. `free` tells what is free of the device now, `within` what is free inside of a context that it makes
/// and ends; a reason of either ends the measuring.
pub fn context_cost(
    mut free: impl FnMut() -> Result<Bytes, String>,
    mut within: impl FnMut() -> Result<Bytes, String>,
) -> Result<Bytes, String> {
    let mut tries = Vec::new();
    for _ in 0..TRIES {
        let before = free()?;
        tries.push((before, within()?));
    }
    confirmed(&tries).ok_or_else(|| {
        format!("in {TRIES} tries no two found the same, because others took or gave back memory of the GPU meanwhile")
    })
}

/// What one try finds and another confirms; the smallest, because what others take makes it larger. Nothing missing means that others gave
/// something back.
fn confirmed(tries: &[(Bytes, Bytes)]) -> Option<Bytes> {
    let found = tries.iter().filter_map(|(before, within)| before.0.checked_sub(within.0));
    let mut found: Vec<u64> = found.filter(|cost| *cost > 0).collect();
    found.sort_unstable();
    found.windows(2).find(|pair| pair[1] - pair[0] <= ALIKE).map(|pair| Bytes(pair[0]))
}

#[cfg(test)]
mod tests {
    use super::{confirmed, context_cost};
    use carve_gpu_model::Bytes;

    #[test]
    fn what_others_do_meanwhile_is_not_taken_for_a_context() {
        let tries = |pairs: &[(u64, u64)]| {
            let pairs: Vec<_> =
                pairs.iter().map(|&(before, within)| (Bytes(before << 20), Bytes(within << 20))).collect();
            confirmed(&pairs).map(|cost| cost.0 >> 20)
        };
        assert_eq!(tries(&[(1_000, 500), (1_000, 500), (1_000, 500)]), Some(500));
        // Somebody took 300 during the second, and gave it back during the third.
        assert_eq!(tries(&[(1_000, 500), (1_000, 200), (700, 500), (1_000, 490)]), Some(500));
        // A model is loaded all the while, or nothing is found twice.
        assert_eq!(tries(&[(9_000, 6_500), (6_000, 3_000), (2_500, 900)]), None);
        assert_eq!(tries(&[(1_000, 500)]), None);
        assert_eq!(tries(&[(1_000, 1_000), (700, 900)]), None);
        assert_eq!(tries(&[]), None);
    }

    #[test]
    fn a_reason_ends_the_measuring() {
        let mut asked = 0;
        let told = context_cost(
            || Ok(Bytes(10)),
            || {
                asked += 1;
                if asked == 2 { Err("no device".to_owned()) } else { Ok(Bytes(5)) }
            },
        );
        assert_eq!((told, asked), (Err("no device".to_owned()), 2));
        assert_eq!(context_cost(|| Ok(Bytes(10)), || Ok(Bytes(4))), Ok(Bytes(6)));
        let refused = context_cost(|| Ok(Bytes(10)), || Ok(Bytes(10))).expect_err("nothing was missing");
        assert!(refused.contains("others took or gave back"), "{refused}");
    }
}
