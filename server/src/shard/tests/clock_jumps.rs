//! The wall clock jumps ahead, and offsets do not expire at once.

use super::world::{World, commit};
use muster_codec::records::GroupRecord;

const HOUR_MS: i64 = 60 * 60 * 1_000;
const DAY_MS: i64 = 24 * HOUR_MS;

fn commit_now(world: &mut World) {
    let GroupRecord::OffsetCommit(key, Some(mut value)) = commit(1, 1, Some(7)) else { panic!() };
    value.commit_timestamp = world.now;
    world.append(&GroupRecord::OffsetCommit(key, Some(value)));
}

#[test]
fn offsets_expire_by_a_jump_of_the_clock_after_an_hour_unless_it_is_set_back() {
    let retention = "offsets.retention.minutes=1440";
    let mut world = World::new(&[retention, "offsets.retention.check.interval.ms=1000"]);
    commit_now(&mut world);
    world.wall_ahead = 10 * DAY_MS;
    world.pass(10_000);
    assert_eq!(world.committed(1, 1), Some(7), "right after the jump");
    world.wall_ahead = 0;
    world.pass(2 * HOUR_MS);
    assert_eq!(world.committed(1, 1), Some(7), "the clock was set back");
    world.wall_ahead = 10 * DAY_MS;
    world.pass(HOUR_MS - 5_000);
    assert_eq!(world.committed(1, 1), Some(7), "the clock may be set back still");
    world.pass(10_000);
    assert_eq!(world.committed(1, 1), None, "the clock is believed");
}

#[test]
fn offsets_expire_by_a_clock_that_is_slewed() {
    let retention = "offsets.retention.minutes=60";
    let mut world = World::new(&[retention, "offsets.retention.check.interval.ms=1000"]);
    commit_now(&mut world);
    world.pass(HOUR_MS - 5_000);
    assert_eq!(world.committed(1, 1), Some(7));
    world.wall_ahead = 10_000;
    world.pass(2_000);
    assert_eq!(world.committed(1, 1), None, "ten seconds are no jump");
}
