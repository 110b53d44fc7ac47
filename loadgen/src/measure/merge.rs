//! Brings the events of all cores into one order, by time.

use crate::driver::command::Told;
use crate::event::Event;
use crate::time::Time;

/// Holds events back until no core can tell of an earlier one.
pub struct Merge {
    lanes: Vec<Lane>,
    /// muster-load's own events: told as they happen, by the thread that also merges.
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

    /// Takes the events out of what a core told. A core that ended holds nothing up any more.
    pub fn push(&mut self, told: &mut Told) {
        let Some(lane) = self.lanes.get_mut(told.core) else { return };
        lane.until = if told.ended.is_some() { Time::MAX } else { lane.until.max(told.until) };
        lane.events.append(&mut told.events);
    }

    /// An event that no core tells, such as partitions that were added.
    pub fn tell(&mut self, event: Event) {
        self.own.push(event);
    }

    /// All events before this moment are ready or have been taken.
    pub fn until(&self) -> Time {
        self.lanes.iter().map(|lane| lane.until).min().unwrap_or(Time::MAX)
    }

    /// Takes what is in its final order, oldest first. What a core told of one moment stays in the
    /// order in which it was told.
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
