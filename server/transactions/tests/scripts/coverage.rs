//! Notes which events the scripts have exercised in which states of a transactional id.

use muster_transactions::State;
use std::collections::BTreeSet;

/// The events of an existing id.
const EVENTS: [&str; 13] = [
    "init",
    "init given",
    "add",
    "offsets",
    "ask",
    "ask verify",
    "end commit",
    "end abort",
    "end commit v4",
    "end abort v4",
    "report",
    "reload",
    "describe",
];

#[derive(Default)]
pub struct Coverage {
    cells: BTreeSet<(State, String)>,
}

impl Coverage {
    pub fn exercise(&mut self, state: State, event: &str) {
        self.cells.insert((state, event.to_owned()));
    }

    pub fn missing(&self) -> Vec<String> {
        let cells =
            State::ALL.into_iter().flat_map(|it| EVENTS.map(|event| (it, event.to_owned())));
        let missing = cells.filter(|cell| !self.cells.contains(cell));
        missing.map(|(state, event)| format!("{}: {event}", state.name())).collect()
    }
}
