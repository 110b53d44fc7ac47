//! Faults of time: the process is paused, its disk hangs, or the wall clock is set.

use super::World;
use crate::coverage::Seen;
use crate::profile::MS;

/// The maximum number of milliseconds by which faults set the wall clock ahead or back. It is less
/// than the days after which some state expires, so that a fault does not make it expire.
const WALL_AHEAD_MS_MAX: u64 = 48 * 3_600_000;

impl World {
    /// Pauses the process, like SIGSTOP or a paused machine: bytes that are sent meanwhile wait in
    /// the sockets. A pause in progress is not changed.
    pub(crate) fn pause_process(&mut self) {
        if !self.node.is_up() || self.node.is_paused() {
            return;
        }
        let longest = 3 * self.profile.clients.session_timeout;
        let pause = self.node.faults().between(MS, longest);
        self.sim.note(format_args!("the process stands still for {} ms", pause / MS));
        self.sim.saw(Seen::Paused);
        self.node.pause_until(self.sim.now() + pause);
    }

    /// Lets the disk hang for a while: it ends no operation, while the shards run. The operations
    /// end in order after the hang. A hang in progress is not changed.
    pub(crate) fn hang_disk(&mut self) {
        if !self.node.is_up() || self.node.hangs_on().is_some() {
            return;
        }
        let longest = 3 * self.profile.clients.session_timeout;
        let hang = self.node.faults().between(MS, longest);
        self.sim.note(format_args!("the disk hangs for {} ms", hang / MS));
        self.sim.saw(Seen::Hung);
        self.node.hang_until(self.sim.now() + hang);
    }

    /// Sets the machine's wall clock forward or back, by up to days.
    pub(crate) fn set_clock(&mut self) {
        let before = self.node.wall_ahead_ms();
        let drawn = self.node.faults().between(0, 2 * WALL_AHEAD_MS_MAX) as i64;
        let ahead = drawn - WALL_AHEAD_MS_MAX as i64;
        self.sim.note(format_args!("the wall clock is set {} ms forward", ahead - before));
        self.sim.saw(if ahead > before { Seen::ClockForward } else { Seen::ClockBack });
        self.node.set_wall_ahead_ms(ahead);
    }
}

#[cfg(test)]
mod tests {
    use super::super::lifecycle::STOP_MAX;
    use super::*;
    use crate::options::Options;
    use crate::profile::{Profile, SECOND};
    use crate::world::Phase;
    use muster_faults::Fault;

    const PAUSE: u64 = 2 * STOP_MAX;

    /// A world in which no write fails.
    fn world(fault: Option<Fault>) -> World {
        let mut profile = Profile::new(0);
        profile.disk.write_error_chance = 0.0;
        World::with_profile(0, profile, Options { fault, ..Options::default() })
    }

    /// A server that is paused for longer than a clean stop may take.
    fn paused() -> World {
        let mut world = world(None);
        world.start();
        world.node.pause_until(PAUSE);
        world
    }

    fn run_until(world: &mut World, time: u64) {
        while world.sim.now() < time && !world.sim.is_violated() {
            world.advance();
        }
    }

    #[test]
    fn shards_take_turns_while_the_disk_hangs() {
        let mut world = world(None);
        world.begin_run();
        world.node.hang_until(10 * SECOND);
        run_until(&mut world, 10 * SECOND);
        assert_eq!(world.sim.violation(), None);
        let is_waiting = matches!(world.phase, Phase::CreatingTopics);
        assert!(is_waiting, "a change waits for the disk");
        assert!(world.sim.count(Seen::TurnInHang) > 10);
        run_until(&mut world, 20 * SECOND);
        assert_eq!(world.sim.violation(), None);
    }

    #[test]
    fn a_shard_that_waits_for_the_disk_is_found() {
        let mut world = world(Some(Fault::BlockingCall));
        world.begin_run();
        world.node.hang_until(10 * SECOND);
        run_until(&mut world, 20 * SECOND);
        let violation = world.sim.violation().unwrap_or_default();
        assert!(violation.contains("has let its input wait"), "{violation}");
    }

    #[test]
    fn a_pause_lasts_although_another_one_begins() {
        let mut world = paused();
        world.pause_process();
        assert_eq!(world.node.stands_until(), PAUSE);
    }

    #[test]
    fn a_hang_lasts_although_another_one_begins() {
        let mut world = world(None);
        world.start();
        world.node.hang_until(PAUSE);
        world.hang_disk();
        assert_eq!(world.node.stands_until(), PAUSE);
    }

    #[test]
    fn a_pause_ends_with_its_process() {
        let mut world = paused();
        let how = world.crash_kind();
        world.crash(how);
        world.start();
        assert!(world.node.is_up() && !world.node.is_paused());
    }

    #[test]
    fn a_stop_has_its_time_from_when_the_process_runs() {
        let mut world = paused();
        world.stop_cleanly();
        run_until(&mut world, STOP_MAX);
        assert_eq!((world.sim.count(Seen::CleanStop), world.sim.violation()), (0, None));
        run_until(&mut world, PAUSE + STOP_MAX);
        assert_eq!((world.sim.count(Seen::CleanStop), world.sim.violation()), (1, None));
    }

    #[test]
    fn a_stop_that_does_not_end_is_found() {
        let mut world = paused();
        world.stop_cleanly();
        for number in 0..world.node.shard_count() {
            world.node.stopped(number);
        }
        run_until(&mut world, PAUSE + STOP_MAX);
        let violation = world.sim.violation().unwrap_or_default();
        assert!(violation.contains("a clean stop takes more"), "{violation}");
    }
}
