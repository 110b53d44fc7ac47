//! The cores of a run: those of this machine, or those of workers.

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
    /// The cluster's answers before the start.
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

    /// The core of this member: members are distributed round robin.
    pub fn core_of(&self, member: MemberIndex) -> usize {
        member.0 as usize % self.cores().max(1)
    }

    /// The core of a task. One machine has them all: it alone knows the topics that it made.
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

    /// The next report of any core. `None` after `timeout`, and when all cores have ended.
    pub fn receive(&mut self, timeout: Duration) -> Option<CoreReport> {
        match self {
            Self::Here(driver) => driver.receive(timeout),
            Self::Workers(fleet) => fleet.receive(timeout),
        }
    }

    /// The machines of the cores, if they are not this one.
    pub fn workers(&self) -> Vec<Worker> {
        match self {
            Self::Here(_) => Vec::new(),
            Self::Workers(fleet) => fleet.workers(),
        }
    }

    /// How much the times of events on different machines may be wrong.
    pub fn clock_error(&self) -> Duration {
        match self {
            Self::Here(_) => Duration::ZERO,
            Self::Workers(fleet) => fleet.clock_error(),
        }
    }

    /// Whether the run lost one of its machines.
    pub fn has_lost_a_worker(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Workers(fleet) => fleet.has_lost_one(),
        }
    }
}
