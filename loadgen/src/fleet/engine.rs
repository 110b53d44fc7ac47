//! The cores of a run: the cores of this machine, or those of workers.

use std::time::Duration;

use super::remote::{Fleet, Worker};
use crate::driver::Driver;
use crate::driver::command::{Cluster, Command, CoreReport};
use crate::plan::MemberIndex;
use crate::time::Time;

pub enum Engine {
    Here(Driver),
    Workers(Fleet),
}

impl Engine {
    /// The properties that the cluster reported before the run began.
    pub fn cluster(&self) -> &Cluster {
        match self {
            Self::Here(driver) => driver.cluster(),
            Self::Workers(fleet) => fleet.cluster(),
        }
    }

    pub fn cores(&self) -> usize {
        match self {
            Self::Here(driver) => driver.cores(),
            Self::Workers(fleet) => fleet.cores(),
        }
    }

    /// The core of this member: members are distributed round-robin.
    pub fn core_of(&self, member: MemberIndex) -> usize {
        member.0 as usize % self.cores().max(1)
    }

    /// The core of a task. All tasks run on one machine, because only that machine knows the topics
    /// that its tasks created.
    pub fn core_of_task(&self, id: u64) -> usize {
        match self {
            Self::Here(driver) => id as usize % driver.cores().max(1),
            Self::Workers(fleet) => id as usize % fleet.cores_of_first().max(1),
        }
    }

    pub fn now(&self) -> Time {
        match self {
            Self::Here(driver) => driver.now(),
            Self::Workers(fleet) => fleet.now(),
        }
    }

    pub fn send(&mut self, core: usize, command: Command) {
        match self {
            Self::Here(driver) => driver.send(core, command),
            Self::Workers(fleet) => fleet.send(core, &command),
        }
    }

    /// The next report of any core. `None` after `timeout`, or when all cores have ended.
    pub fn receive(&mut self, timeout: Duration) -> Option<CoreReport> {
        match self {
            Self::Here(driver) => driver.receive(timeout),
            Self::Workers(fleet) => fleet.receive(timeout),
        }
    }

    /// The machines that run the cores. Empty if all cores are on this machine.
    pub fn workers(&self) -> Vec<Worker> {
        match self {
            Self::Here(_) => Vec::new(),
            Self::Workers(fleet) => fleet.workers(),
        }
    }

    /// The maximum error of the difference between the times of two events on different machines.
    pub fn clock_error(&self) -> Duration {
        match self {
            Self::Here(_) => Duration::ZERO,
            Self::Workers(fleet) => fleet.clock_error(),
        }
    }

    /// Whether a machine of the run was lost.
    pub fn has_lost_a_worker(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Workers(fleet) => fleet.has_lost_one(),
        }
    }
}
