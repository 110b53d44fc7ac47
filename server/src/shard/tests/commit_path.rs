//! Only commits of a group, for `server/commit-path`, which compares the coverage of runs that
//! differ in one commit.

use super::counters::commit;
use super::world::World;
use crate::net::ConnectionId;
use crate::shard::Event;

/// The rounds of each run, so that all runs take the same time and turns.
const ROUNDS: usize = 8;

/// The time in which a commit becomes durable and is answered.
const ROUND_MS: i64 = 1_000;

/// The number of additional turns in a round without a commit. A commit takes fewer turns, so the
/// comparison of runs does not count the work of mere turns as work of the commit.
const IDLE_TURNS: usize = 20;

/// The number of rounds that begin with a commit; the first are warm-up.
fn commits() -> usize {
    std::env::var("MUSTER_COMMITS").map_or(ROUNDS, |text| text.parse().unwrap())
}

#[test]
fn a_commit_is_answered_in_its_round() {
    let mut world = World::new(&[]);
    // In debug builds the audit would compare the groups that a commit changed.
    world.common.audits = false;
    world.restart();
    let connection = ConnectionId::new(0, 0);
    world.connect(connection);
    world.pass(ROUND_MS);
    let (commits, commit) = (commits(), commit());
    let (mut answered, mut sendable) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        if round < commits {
            world.step(Event::Received { connection, data: &commit });
        } else {
            (0..IDLE_TURNS).for_each(|_| world.turn());
        }
        world.pass(ROUND_MS);
        world.shard.take_sendable(&mut sendable);
        let output = world.shard.output(connection).map(std::mem::take);
        answered.push(output.is_some());
        if output.is_some() {
            world.step(Event::Sent { connection, unsent: 0 });
        }
    }
    let expected: Vec<bool> = (0..ROUNDS).map(|round| round < commits).collect();
    assert_eq!(answered, expected);
    assert_eq!(world.totals().of("groups_offsets_committed"), commits as u64);
}
