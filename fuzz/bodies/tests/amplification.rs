//! The cost of each request in a shard with much state, compared with the bounds of
//! `muster_fuzz_bodies::amplification`. `MUSTER_AMPLIFICATION=large` uses the state of the largest
//! clusters, and takes minutes and some gigabytes. `--nocapture` prints the costliest requests.

use muster_fuzz_bodies::amplification::{Cost, Sizes, survey};

const SMALL: Sizes =
    Sizes { groups: 500, offsets: 10_000, members: 200, client_id_bytes: 5_000, topics: 300 };

const LARGE: Sizes = Sizes {
    groups: 100_000,
    offsets: 200_000,
    members: 10_000,
    client_id_bytes: 20_000,
    topics: 10_000,
};

/// The number of names in a request.
const COUNTS: &[usize] = &[2_000];
const LARGE_COUNTS: &[usize] = &[1, 1_000, 100_000];

const PRINTED: usize = 40;

#[test]
fn no_request_exceeds_the_bound_of_its_api() {
    let is_large = std::env::var("MUSTER_AMPLIFICATION").is_ok_and(|size| size == "large");
    let (sizes, counts) = if is_large { (LARGE, LARGE_COUNTS) } else { (SMALL, COUNTS) };
    let mut costs = survey(sizes, counts, is_large);
    costs.sort_by_key(|(_, cost, _)| std::cmp::Reverse(cost.memory_bytes));
    println!("{} requests; those that took most memory:", costs.len());
    costs.iter().take(PRINTED).for_each(|(name, cost, _)| println!("{name}: {}", shown(cost)));
    let too_much: Vec<_> = costs.iter().filter_map(|(_, _, why)| why.as_deref()).collect();
    assert!(too_much.is_empty(), "{} take too much:\n{}", too_much.len(), too_much.join("\n"));
}

fn shown(cost: &Cost) -> String {
    let Cost { request_bytes, answer_bytes, memory_bytes, turns } = cost;
    format!(
        "{request_bytes} bytes, {answer_bytes} of answer, {memory_bytes} of memory, {turns} turns"
    )
}
