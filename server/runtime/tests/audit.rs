//! Audits of toy machines.

#![allow(clippy::unwrap_used)]

mod toys;

use muster_runtime::Audit;
use toys::{Toys, record};

/// Adds records to a partition, each with a key of this length.
fn add(toys: &mut Toys, index: u32, lens: &[usize]) {
    for len in lens {
        toys.sums.on(index, |sum, _| muster_runtime::Machine::apply(sum, &[record(*len)], 1));
    }
}

#[test]
fn each_state_is_audited_once_a_round_and_one_in_each_interval() {
    let (mut toys, mut audit) = (Toys::new(), Audit::new(0));
    add(&mut toys, 2, &[2, 2]);
    add(&mut toys, 5, &[2, 1]);
    let mut found = |now| audit.turn(now, &mut toys);
    let differs = Err("a sum of 3".to_owned());
    // The first three states are right: two of partition 2 and one of partition 5. The fifth turn
    // finds that no state is left, and ends the round.
    for round in [1, 6] {
        let at = [0, 1, 2, 3, 4].map(|turn| (round + turn) * 1_000);
        assert_eq!(at.map(&mut found), [Ok(()), Ok(()), Ok(()), differs.clone(), Ok(())]);
    }
    add(&mut toys, 1, &[1]);
    assert_eq!(audit.turn(10_999, &mut toys), Ok(()), "it is not time");
    assert_eq!(audit.turn(11_000, &mut toys), Err("a sum of 1".to_owned()));
}
