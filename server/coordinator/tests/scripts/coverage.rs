//! The combinations of a group's state and an event that the scripts have covered.

use std::collections::BTreeSet;

const STATES: &[&str] = &["Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"];

/// Requests that a group in any state may get.
const REQUESTS: &[&str] = &[
    "join new",
    "join member",
    "join static",
    "join static without id",
    "sync member",
    "sync stranger",
    "heartbeat member",
    "heartbeat stranger",
    "leave member",
    "leave pending",
    "leave stranger",
    "commit member",
    "commit stranger",
    "commit simple",
    "fetch",
    "delete-offsets",
    "delete",
    "list",
    "describe",
    "reload",
];

/// Whether a request cannot occur in a state. If the group is empty, no member sends requests. If
/// it does not exist, no static member is known either, and no client that waits to join.
fn is_impossible(state: &str, request: &str) -> bool {
    match state {
        "Dead" => {
            request.ends_with("member")
                || ["leave pending", "join static", "join static without id"].contains(&request)
        }
        "Empty" => {
            request.ends_with("member")
                || ["join static", "join static without id"].contains(&request)
        }
        _ => false,
    }
}

/// Events of timers, with the states in which they are possible.
const TIMERS: &[(&str, &str)] = &[
    ("Empty", "Session"),
    ("PreparingRebalance", "Session"),
    ("CompletingRebalance", "Session"),
    ("Stable", "Session"),
    ("PreparingRebalance", "Join"),
    ("CompletingRebalance", "PendingSync"),
    ("Stable", "PendingSync"),
    ("Empty", "Sweep"),
    ("PreparingRebalance", "Sweep"),
    ("CompletingRebalance", "Sweep"),
    ("Stable", "Sweep"),
];

#[derive(Default)]
pub struct Coverage {
    cells: BTreeSet<(String, String)>,
}

impl Coverage {
    pub fn exercise(&mut self, state: &str, what: &str) {
        assert!(STATES.contains(&state), "{state}");
        self.cells.insert((state.to_owned(), what.to_owned()));
    }

    pub fn missing(&self) -> Vec<String> {
        let requests = STATES.iter().flat_map(|state| {
            let possible = REQUESTS.iter().filter(|request| !is_impossible(state, request));
            possible.map(|request| (*state, *request))
        });
        let cells = requests.chain(TIMERS.iter().copied());
        let is_missing = |(state, what): &(&str, &str)| {
            !self.cells.contains(&((*state).to_owned(), (*what).to_owned()))
        };
        cells.filter(is_missing).map(|(state, what)| format!("{state}: {what}")).collect()
    }
}
