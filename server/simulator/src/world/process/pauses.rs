//! Faults of the time: the process stands still, or its disk, and the wall clock is set.

use crate::coverage::Seen;
use crate::profile::MS;
use crate::world::World;

/// The largest lead or lag of the wall clock: too little to expire what is kept for days.
const WALL_AHEAD_MS_MAX: u64 = 48 * 3_600_000;

impl World {
    /// Pauses the process, like SIGSTOP or a paused machine: bytes that are sent meanwhile wait in
    /// the sockets. A pause does not change one that lasts.
    pub(crate) fn pause_process(&mut self) {
        if !self.process.is_up() || self.sim.now() < self.process.paused_until {
            return;
        }
        let longest = 3 * self.profile.clients.session_timeout;
        let pause = self.faults.between(MS, longest);
        self.sim.note(format_args!("the process stands still for {} ms", pause / MS));
        self.sim.saw(Seen::Paused);
        self.process.paused_until = self.sim.now() + pause;
    }

    /// Ends the pause with its process: the next one runs at once, on a disk that works.
    pub(super) fn end_pause(&mut self) {
        self.process.paused_until = 0;
        self.process.hangs_until = 0;
        self.process.blocked_until = 0;
    }

    /// Has the disk end no operation for a while; the shards run. A hang does not change one that
    /// lasts: operations end in their order when it is over.
    pub(crate) fn hang_disk(&mut self) {
        if !self.process.is_up() || self.hangs_on().is_some() {
            return;
        }
        let longest = 3 * self.profile.clients.session_timeout;
        let hang = self.faults.between(MS, longest);
        self.sim.note(format_args!("the disk hangs for {} ms", hang / MS));
        self.sim.saw(Seen::Hung);
        self.process.hangs_until = self.sim.now() + hang;
    }

    /// The end of the hang, if the disk hangs.
    pub(super) fn hangs_on(&self) -> Option<u64> {
        Some(self.process.hangs_until).filter(|until| self.sim.now() < *until)
    }

    /// Sets the machine's wall clock forward or back, by up to days.
    pub(crate) fn set_clock(&mut self) {
        let before = self.process.wall_ahead_ms;
        let drawn = self.faults.between(0, 2 * WALL_AHEAD_MS_MAX) as i64;
        let ahead = drawn - WALL_AHEAD_MS_MAX as i64;
        self.sim.note(format_args!("the wall clock is set {} ms forward", ahead - before));
        self.sim.saw(if ahead > before { Seen::ClockForward } else { Seen::ClockBack });
        self.process.wall_ahead_ms = ahead;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Process;
    use super::super::lifecycle::STOP_MAX;
    use super::*;
    use crate::options::Options;
    use crate::profile::SECOND;
    use crate::world::Phase;
    use muster_faults::Fault;

    const PAUSE: u64 = 2 * STOP_MAX;

    /// A server that is paused for longer than a clean stop may take.
    fn paused() -> World {
        let mut world = World::new(0, Options::default());
        world.profile.disk.write_error_chance = 0.0;
        world.start();
        world.process.paused_until = PAUSE;
        world
    }

    fn run_until(world: &mut World, time: u64) {
        while world.sim.now() < time && !world.sim.is_violated() {
            world.advance();
        }
    }

    #[test]
    fn shards_take_turns_while_the_disk_hangs() {
        let mut world = World::new(0, Options::default());
        world.profile.disk.write_error_chance = 0.0;
        world.begin_run();
        world.process.hangs_until = 10 * SECOND;
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
        let mut world = World::new(0, Options::default());
        world.profile.disk.write_error_chance = 0.0;
        world.injected = Some(Fault::BlockingCall);
        world.begin_run();
        world.process.hangs_until = 10 * SECOND;
        run_until(&mut world, 20 * SECOND);
        let violation = world.sim.violation().unwrap_or_default();
        assert!(violation.contains("has let its input wait"), "{violation}");
    }

    #[test]
    fn a_pause_or_a_hang_lasts_although_another_one_begins() {
        let mut world = paused();
        world.process.hangs_until = PAUSE;
        world.pause_process();
        world.hang_disk();
        let Process { paused_until, hangs_until, .. } = world.process;
        assert_eq!((paused_until, hangs_until), (PAUSE, PAUSE));
    }

    #[test]
    fn a_pause_ends_with_its_process() {
        let mut world = paused();
        let how = world.crash_kind();
        world.crash(how);
        world.start();
        assert!(world.process.is_up() && world.process.paused_until == 0);
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
        world.process.shards.iter_mut().for_each(|shard| shard.stopped = true);
        run_until(&mut world, PAUSE + STOP_MAX);
        let violation = world.sim.violation().unwrap_or_default();
        assert!(violation.contains("a clean stop takes more"), "{violation}");
    }
}
