//! Runs a program over a name. The threads (the states in which the program may be) advance
//! together, byte by byte. So the time is at most proportional to the length of the name times the
//! size of the program.

use super::Regex;
use super::program::{Look, Program, State, StateIndex};
use alloc::vec::Vec;

/// The buffers of a run, which later runs reuse.
#[derive(Debug, Default)]
pub struct Matcher {
    now: Threads,
    then: Threads,
    stack: Vec<StateIndex>,
}

/// The active states of one step. `taking` are the states that consume a character.
#[derive(Debug, Default)]
struct Threads {
    taking: Vec<StateIndex>,
    /// For each state, the step in which it was last reached.
    reached: Vec<u32>,
    step: u32,
    has_match: bool,
}

impl Matcher {
    /// Whether an expression matches a whole name.
    pub fn matches(&mut self, regex: &Regex, name: &str) -> bool {
        self.run(regex, name).0
    }

    /// Like [`Self::matches`], and also returns the number of thread steps.
    pub(super) fn run(&mut self, regex: &Regex, name: &str) -> (bool, usize) {
        let program = &regex.program;
        if !name.is_ascii() {
            return (false, 1);
        }
        let name = name.as_bytes();
        self.now.begin(program);
        self.then.begin(program);
        self.add(program, program.start, Place { name, at: 0 });
        let mut steps = 1;
        for (at, byte) in name.iter().enumerate() {
            core::mem::swap(&mut self.now, &mut self.then);
            steps += 1 + self.now.taking.len();
            self.then.clear();
            if self.now.taking.is_empty() {
                return (false, steps);
            }
            for index in 0..self.now.taking.len() {
                if let State::Class(set, next) = program.states[self.now.taking[index] as usize]
                    && set.contains(*byte)
                {
                    self.add(program, next, Place { name, at: at + 1 });
                }
            }
        }
        (self.then.has_match, steps)
    }

    /// Adds a state at this place, and all states that it reaches without consuming a character.
    fn add(&mut self, program: &Program, state: StateIndex, place: Place<'_>) {
        self.stack.push(state);
        while let Some(state) = self.stack.pop() {
            if !self.then.reach(state) {
                continue;
            }
            match program.states[state as usize] {
                State::Class(..) => self.then.taking.push(state),
                State::Match => self.then.has_match = true,
                State::Split(one, other) => self.stack.extend([other, one]),
                State::Look(look, next) if place.holds(look) => self.stack.push(next),
                State::Look(..) => {}
            }
        }
    }
}

impl Threads {
    /// Starts a run. The entries of earlier runs in `reached` do no harm: their steps were earlier.
    fn begin(&mut self, program: &Program) {
        if self.reached.len() < program.states.len() {
            self.reached.resize(program.states.len(), 0);
        }
        self.clear();
    }

    fn clear(&mut self) {
        self.taking.clear();
        self.step = self.step.wrapping_add(1);
        if self.step == 0 {
            self.reached.fill(0);
            self.step = 1;
        }
        self.has_match = false;
    }

    /// Marks a state as reached. Returns whether it is new in this step.
    fn reach(&mut self, state: StateIndex) -> bool {
        core::mem::replace(&mut self.reached[state as usize], self.step) != self.step
    }
}

/// A place in a name.
#[derive(Clone, Copy)]
struct Place<'n> {
    name: &'n [u8],
    at: usize,
}

impl Place<'_> {
    fn holds(self, look: Look) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.name.get(at)).copied();
        let behind = self.name.get(self.at).copied();
        let is_word = |byte: Option<u8>| {
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        match look {
            Look::TextStart => before.is_none(),
            Look::TextEnd => behind.is_none(),
            Look::LineStart => before.is_none_or(|byte| byte == b'\n'),
            Look::LineEnd => behind.is_none_or(|byte| byte == b'\n'),
            Look::WordBoundary => is_word(before) != is_word(behind),
            Look::NoWordBoundary => is_word(before) == is_word(behind),
        }
    }
}
