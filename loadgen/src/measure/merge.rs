//! Merges the events of all cores into one order, by time.

use crate::driver::command::CoreReport;
use crate::event::Event;
use crate::time::Time;

/// Holds events back until no core can report an earlier one.
pub struct Merge {
    lanes: Vec<Lane>,
    /// Events of muster-load itself and of clients, sorted by time. They come from the thread that
    /// merges.
    own: Vec<Event>,
}

#[derive(Default)]
struct Lane {
    until: Time,
    events: Vec<Event>,
}

impl Merge {
    pub fn new(cores: usize) -> Self {
        let lanes = std::iter::repeat_with(Lane::default).take(cores).collect();
        Self { lanes, own: Vec::new() }
    }

    /// Takes the events of a core's report. A core that has ended no longer holds events back.
    pub fn push(&mut self, report: &mut CoreReport) {
        let Some(lane) = self.lanes.get_mut(report.core) else { return };
        lane.until = if report.ended.is_some() { Time::MAX } else { lane.until.max(report.until) };
        lane.events.append(&mut report.events);
    }

    /// Adds an event that no core reports, such as added partitions.
    pub fn insert(&mut self, event: Event) {
        let place = self.own.partition_point(|other| other.at <= event.at);
        self.own.insert(place, event);
    }

    /// No core will report an event before this time. All earlier events can be taken from
    /// [`Merge::ready`], or were taken.
    pub fn until(&self) -> Time {
        self.lanes.iter().map(|lane| lane.until).min().unwrap_or(Time::MAX)
    }

    /// Takes the events whose order is final, oldest first. Events of a core with equal times keep
    /// the core's order.
    pub fn ready(&mut self) -> Vec<Event> {
        let until = self.until();
        let mut ready = Vec::new();
        for events in self.lanes.iter_mut().map(|lane| &mut lane.events).chain([&mut self.own]) {
            let early = events.partition_point(|event| event.at < until);
            ready.extend(events.drain(..early));
        }
        ready.sort_by_key(|event| event.at);
        ready
    }
}
