//! The frame of a run: the simulated clock with the planned events, the trace, the coverage, and
//! the first violation. All parts of the world report to it.

use crate::coverage::{Coverage, Seen};
use crate::event::TimedEvent;
use crate::options::Options;
use crate::queue::Queue;
use crate::trace::Trace;
use std::fmt;

pub(crate) struct Sim {
    queue: Queue<TimedEvent>,
    trace: Trace,
    coverage: Coverage,
    violation: Option<String>,
    steps: u64,
    steps_max: u64,
}

impl Sim {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            queue: Queue::default(),
            trace: Trace::new(options.prints),
            coverage: Coverage::default(),
            violation: None,
            steps: 0,
            steps_max: options.steps_max,
        }
    }

    /// The time, in microseconds since the run began.
    pub(crate) fn now(&self) -> u64 {
        self.queue.now()
    }

    /// Advances the time, in runs in which time also passes without events.
    pub(crate) fn advance(&mut self, now: u64) {
        self.queue.advance(now);
    }

    /// The time of the next event.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.queue.next_at()
    }

    /// Plans an event `delay` microseconds from now.
    pub(crate) fn after(&mut self, delay: u64, what: impl Into<TimedEvent>) {
        self.queue.after(delay, what);
    }

    /// Plans an event at a time, or now if this time is past.
    pub(crate) fn at(&mut self, at: u64, what: impl Into<TimedEvent>) {
        self.queue.at(at, what);
    }

    /// The planned events, for the network, which plans its own.
    pub(crate) fn queue(&mut self) -> &mut Queue<TimedEvent> {
        &mut self.queue
    }

    /// Advances the time to the next event, and returns the event. None means a violation: there
    /// are no more events, or too many.
    pub(crate) fn next_event(&mut self) -> Option<TimedEvent> {
        let Some(event) = self.queue.pop() else {
            self.violate(format_args!("nothing happens any more"));
            return None;
        };
        self.steps += 1;
        let steps_max = self.steps_max;
        if self.steps > steps_max {
            self.violate(format_args!("more than {steps_max} steps"));
            return None;
        }
        Some(event)
    }

    /// The number of events so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Adds a line to the trace.
    pub(crate) fn note(&mut self, what: fmt::Arguments<'_>) {
        self.trace.note(self.queue.now(), what);
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    pub(crate) fn saw(&mut self, what: Seen) {
        self.coverage.saw(what);
    }

    /// Adds `count` to a coverage mark.
    pub(crate) fn add(&mut self, what: Seen, count: u64) {
        self.coverage.add(what, count);
    }

    pub(crate) fn count(&self, what: Seen) -> u64 {
        self.coverage.count(what)
    }

    pub(crate) fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Notes the first violation; the run ends with it.
    pub(crate) fn violate(&mut self, what: fmt::Arguments<'_>) {
        if self.violation.is_none() {
            self.note(format_args!("VIOLATION: {what}"));
            self.violation = Some(what.to_string());
        }
    }

    pub(crate) fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    pub(crate) fn is_violated(&self) -> bool {
        self.violation.is_some()
    }
}
