//! What each request costs in a shard with much state: all that `muster_fuzz_bodies::amplification`
//! bounds. `MUSTER_AMPLIFICATION=large` has the state of the largest clusters, and takes minutes and
//! some gigabytes; with `--nocapture` the costliest requests are printed.

use muster_fuzz_bodies::amplification::{Cost, Sizes, survey};

const SMALL: Sizes =
    Sizes { groups: 500, offsets: 50_000, members: 200, client_id_bytes: 5_000, topics: 300 };

const LARGE: Sizes = Sizes {
    groups: 100_000,
    offsets: 1_000_000,
    members: 10_000,
    client_id_bytes: 20_000,
    topics: 10_000,
};

/// How often things are named in a request.
const COUNTS: &[usize] = &[2_000];
const LARGE_COUNTS: &[usize] = &[1, 1_000, 100_000];

const PRINTED: usize = 40;

#[test]
fn no_request_takes_more_than_its_api_may() {
    let is_large = std::env::var("MUSTER_AMPLIFICATION").is_ok_and(|size| size == "large");
    let (sizes, counts) = if is_large { (LARGE, LARGE_COUNTS) } else { (SMALL, COUNTS) };
    let mut costs = survey(sizes, counts, is_large);
    costs.sort_by_key(|(_, cost, _)| std::cmp::Reverse(cost.memory_bytes));
    println!("{} requests; those that took most memory:", costs.len());
    costs.iter().take(PRINTED).for_each(|(name, cost, _)| println!("{name}: {}", told(cost)));
    let too_much: Vec<_> = costs.iter().filter_map(|(_, _, why)| why.as_deref()).collect();
    assert!(too_much.is_empty(), "{} take too much:\n{}", too_much.len(), too_much.join("\n"));
}

fn told(cost: &Cost) -> String {
    let Cost { request_bytes, answer_bytes, memory_bytes, turns } = cost;
    format!(
        "{request_bytes} bytes, answered with {answer_bytes}, {memory_bytes} of memory, {turns} turns"
    )
}
